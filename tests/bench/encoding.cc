// What it costs to say floats in fewer bytes: each encoding of common/encode/encode.h, there and back, beside
// a copy of the same floats (memcpy), which is what the copy-free path of float32 does not even do.
//
//   bench_encoding [--benchmark_filter=int8] [--benchmark_out=FILE]      (JSON)
//
//   encode    as a server does once for all readers of a state: frame by frame
//   owed      as a worker does with a gradient, frame by frame with error feedback (GradientEncoder)
//   decode    as the other side does
//
// Frames of cluster.frame_bytes, the loops of this processor. ratio: median over the pairs of the copy's
// processor time by that of the encoding, so what a float32 float costs to copy is 1 and 0.25 is four copies.
// GBps: float32 bytes gone through, of_fp32: the share of them that is sent. No target: what is gained
// depends on the network.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "common/encode/encode.h"
#include "common/random.h"
#include "tests/bench/turns.h"
#include "worker/client/gradient_encoder.h"

namespace paceline {
namespace {

constexpr std::int64_t kFrameFloats = 512 * 1024 / sizeof(float);  // cluster.frame_bytes

enum class Way { kEncode, kOwed, kDecode };

// Numbers as a gradient has them: both signs, and magnitudes of several orders.
bench::Array gradient_of(std::int64_t n) {
  bench::Array values = bench::filled(n, 0.0F);
  CounterRandom random(1, Stream::kTest);
  for (std::int64_t i = 0; i < n; ++i) {
    const double uniform = random.next_double();
    values[static_cast<std::size_t>(i)] = static_cast<float>(std::pow(uniform - 0.5, 3));
  }
  return values;
}

// Calls `work(offset, floats, number)` of each frame.
template <typename Work>
void each_frame(std::int64_t n, Work&& work) {
  for (std::int64_t at = 0; at < n; at += kFrameFloats)
    work(at, std::min(kFrameFloats, n - at), at / kFrameFloats);
}

class Encoded {
 public:
  Encoded(const Encoder& encoder, std::int64_t n) : encoder_(encoder) {
    each_frame(n, [&](std::int64_t, std::int64_t floats, std::int64_t) {
      begins_.push_back(bytes_);
      bytes_ += (encoder.bytes_of(floats) + 63) / 64 * 64;
      sent_ += encoder.bytes_of(floats);
    });
    memory_ = bench::filled(static_cast<std::int64_t>(bytes_ / sizeof(float)), 0.0F);
  }
  std::span<std::byte> frame(std::int64_t number, std::int64_t floats) const {
    return {reinterpret_cast<std::byte*>(memory_.get()) + begins_[static_cast<std::size_t>(number)],
            encoder_.bytes_of(floats)};
  }
  std::size_t sent() const { return sent_; }

 private:
  const Encoder encoder_;
  std::vector<std::size_t> begins_;
  std::size_t bytes_ = 0, sent_ = 0;
  bench::Array memory_;
};

void measure(benchmark::State& state, const Encoder& encoder, Way way, std::int64_t n) {
  const bench::Array values = gradient_of(n);
  const bench::Array copy = bench::filled(n, 0.0F);
  const auto view = [&](const bench::Array& of, std::int64_t at, std::int64_t floats) {
    return std::span<float>(of.get() + at, static_cast<std::size_t>(floats));
  };
  const Encoded bytes(encoder, n);
  GradientEncoder with_feedback(encoder, {Range{0, n}}, kFrameFloats);
  const ShardParts whole{Range{0, n}};

  const auto encode = [&] {
    each_frame(n, [&](std::int64_t at, std::int64_t floats, std::int64_t number) {
      encoder.encode(view(values, at, floats), bytes.frame(number, floats));
    });
  };
  const auto owed = [&] { benchmark::DoNotOptimize(with_feedback.encode(view(values, 0, n), whole)); };
  bool wrong = false;
  const auto decode_all = [&] {
    each_frame(n, [&](std::int64_t at, std::int64_t floats, std::int64_t number) {
      wrong |= !decode(encoder.encoding, bytes.frame(number, floats), view(copy, at, floats)).is_ok();
    });
  };
  const auto limit = [&] {
    std::memcpy(copy.get(), values.get(), static_cast<std::size_t>(n) * sizeof(float));
  };
  encode();
  const auto loop = [&] {
    switch (way) {
      case Way::kEncode:
        return encode();
      case Way::kOwed:
        return owed();
      case Way::kDecode:
        return decode_all();
    }
  };
  const bench::Pairs pairs = bench::take_turns(state, limit, loop);
  if (wrong) state.SkipWithError("what was encoded was not decoded");
  const double gigabytes = 1e-9 * static_cast<double>(n) * sizeof(float);
  state.counters["ratio"] = pairs.ratio;
  state.counters["GBps"] = gigabytes / pairs.loop_cpu;
  state.counters["memcpy_GBps"] = gigabytes / pairs.limit_cpu;
  state.counters["of_fp32"] = 1e-9 * static_cast<double>(bytes.sent()) / gigabytes;
}

void register_all() {
  struct Case {
    const char* name;
    Encoder encoder;
  };
  const Case cases[] = {{"fp16", {Encoding::kFp16, 1.0}},
                        {"bf16", {Encoding::kBf16, 1.0}},
                        {"int8", {Encoding::kInt8, 1.0}},
                        {"top_k_0.1", {Encoding::kTopK, 0.1}},
                        {"top_k_0.01", {Encoding::kTopK, 0.01}}};
  struct Size {
    const char* name;
    std::int64_t floats;
    int pairs;
  };
  for (const Size& size : {Size{"1M", 1 << 20, 51}, Size{"16M", 1 << 24, 15}}) {
    for (const Case& one : cases) {
      for (const auto& [way, name] :
           {std::pair{Way::kEncode, "encode"}, {Way::kOwed, "owed"}, {Way::kDecode, "decode"}}) {
        if (way == Way::kOwed && only_rounds(one.encoder.encoding)) continue;  // nothing is owed
        const std::string title = std::string(one.name) + "/" + name + "/" + size.name;
        benchmark::RegisterBenchmark(
            title.c_str(), [=](benchmark::State& state) { measure(state, one.encoder, way, size.floats); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond)
            ->Iterations(size.pairs);
      }
    }
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  paceline::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
