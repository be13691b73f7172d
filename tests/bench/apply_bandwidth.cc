// How close the optimizers come to the memory: each loop of common/params/kernels.h, for each instruction set
// of this processor, beside its limit: a loop with the same loads and stores on the same arrays that only
// adds, in the best instruction set. Loop and limit take turns, and who begins a pair alternates.
//
//   bench_apply_bandwidth [--benchmark_filter=adam/apart] [--benchmark_out=FILE]      (JSON)
//
// ratio: median over the pairs of the limit's time by the loop's, in the thread's processor time. Neither
// waits, so on a quiet machine that is the time that passes, and on a busy one what others ran is not in it.
// ratio_wall: the same of the time that passed. GBps, limit_GBps: what is loaded and stored, by the median
// processor time; that a store first reads its cache line is not counted. triad_GBps: of STREAM's triad,
// a = b + s * c, over as many floats each (12 bytes an element), in the best instruction set; of_triad: the
// loop's GBps by it. The triad runs after the pairs, as often as they: between them its arrays would put the
// loop's out of the cache.
//
// in_place, apart: as a server applies what nobody reads, and what is written beside a state that somebody
// does. past_cache: apart, as it does where the state outgrows the processor's cache (server/store/
// speculative_apply_fold.cc): the parameters are stored past it. Its limit does so, too.
//
// Exit status 1 when the loops that OptimizerState runs (kernels::best) have a ratio under 0.85 at 1M or 64M
// floats. 1K are there to know: all in the first-level cache, where the arithmetic is the limit.
#include <benchmark/benchmark.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/params/kernels.h"
#include "common/params/vector_ops.h"
#include "tests/bench/judged.h"
#include "tests/bench/turns.h"

namespace paceline {
namespace {

using bench::Array;
using bench::filled;
using kernels::InstructionSet;
using kernels::Kernels;

constexpr double kTarget = 0.85;
constexpr float kRate = 1e-3F;

enum class Optimizer { kSgd, kMomentum, kAdam };
enum class Place { kInPlace, kApart, kPastCache };

// The arrays of one optimizer; the ones it does not use are empty.
struct Arrays {
  Arrays(Optimizer optimizer, Place place, std::int64_t floats) : n(floats) {
    in = filled(n, 1.0F);
    gradient = filled(n, 1e-3F);
    if (place != Place::kInPlace) apart = filled(n, 0.0F);
    if (optimizer != Optimizer::kSgd) first = filled(n, 1e-3F);
    if (optimizer == Optimizer::kAdam) second = filled(n, 1e-6F);
  }
  float* out() const { return apart ? apart.get() : in.get(); }

  std::int64_t n;
  Array in, gradient, apart, first, second;
};

// The limit: what has to be loaded is loaded, what has to be stored is stored, and between them lies one
// addition.
template <Optimizer kOptimizer>
[[gnu::always_inline]] inline void only_add(const Arrays& a) {
  const float* const in = a.in.get();
  const float* const gradient = a.gradient.get();
  float* const out = a.out();
  float* const first = a.first.get();
  float* const second = a.second.get();
  const std::int64_t n = a.n;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gradient[i];
    if constexpr (kOptimizer != Optimizer::kSgd) first[i] = first[i] + g;
    if constexpr (kOptimizer == Optimizer::kAdam) second[i] = second[i] + g;
    out[i] = in[i] + g;
  }
}

// The same where the parameters are stored past the cache, a cache line at a time in registers of 32 bytes,
// as the loops do. n is a multiple of a line, and the arrays begin with one.
#if defined(__x86_64__)
template <Optimizer kOptimizer>
[[gnu::target("avx")]] void only_add_past_cache(const Arrays& a) {
  const float* const in = a.in.get();
  const float* const gradient = a.gradient.get();
  float* const out = a.out();
  float* const first = a.first.get();
  float* const second = a.second.get();
  constexpr std::int64_t kLine = 64 / sizeof(float);
  constexpr std::int64_t kWidth = 8;
  for (std::int64_t i = 0; i < a.n; i += kLine) {
    for (std::int64_t k = i; k < i + kLine; k += kWidth) {
      const __m256 g = _mm256_loadu_ps(gradient + k);
      if constexpr (kOptimizer != Optimizer::kSgd)
        _mm256_storeu_ps(first + k, _mm256_add_ps(_mm256_loadu_ps(first + k), g));
      if constexpr (kOptimizer == Optimizer::kAdam)
        _mm256_storeu_ps(second + k, _mm256_add_ps(_mm256_loadu_ps(second + k), g));
      _mm256_stream_ps(out + k, _mm256_add_ps(_mm256_loadu_ps(in + k), g));
    }
  }
  _mm_sfence();
}
#endif

// STREAM's.
[[gnu::always_inline]] inline void triad(const Arrays& a, float* out) {
  const float* const in = a.in.get();
  const float* const gradient = a.gradient.get();
  const std::int64_t n = a.n;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] + 3.0F * gradient[i];
}

// The loop in the best instruction set, as kernels::best().
template <auto kLoop, typename... Of>
void in_plain(const Of&... of) {
  kLoop(of...);
}
#if defined(__x86_64__)
template <auto kLoop, typename... Of>
[[gnu::target("avx2")]] void in_avx2(const Of&... of) {
  kLoop(of...);
}
template <auto kLoop, typename... Of>
[[gnu::target("avx512f,avx512vl,avx512dq,prefer-vector-width=256")]] void in_avx512(const Of&... of) {
  kLoop(of...);
}
#endif

template <auto kLoop, typename... Of>
void in_best(const Of&... of) {
#if defined(__x86_64__)
  const InstructionSet set = kernels::best().set;
  if (set == InstructionSet::kAvx512) return in_avx512<kLoop>(of...);
  if (set == InstructionSet::kAvx2) return in_avx2<kLoop>(of...);
#endif
  in_plain<kLoop>(of...);
}

template <Optimizer kOptimizer>
void run_limit([[maybe_unused]] Place place, const Arrays& arrays) {
#if defined(__x86_64__)
  if (place == Place::kPastCache && kernels::best().set != InstructionSet::kPlain)
    return only_add_past_cache<kOptimizer>(arrays);
#endif
  in_best<only_add<kOptimizer>>(arrays);
}

void run_limit(Optimizer optimizer, Place place, const Arrays& arrays) {
  if (optimizer == Optimizer::kSgd) return run_limit<Optimizer::kSgd>(place, arrays);
  if (optimizer == Optimizer::kMomentum) return run_limit<Optimizer::kMomentum>(place, arrays);
  run_limit<Optimizer::kAdam>(place, arrays);
}

void run_loop(Optimizer optimizer, Place place, const Kernels& loops, const Arrays& arrays) {
  const kernels::Piece piece{arrays.in.get(), arrays.out(), arrays.gradient.get(), arrays.n};
  const bool past_cache = place == Place::kPastCache;
  if (optimizer == Optimizer::kSgd) {
    if (!past_cache) return loops.sgd(piece, kRate, {});
    loops.sgd_past_cache(piece, kRate, {});
    return;
  }
  if (optimizer == Optimizer::kMomentum) {
    const auto momentum = past_cache ? loops.momentum_past_cache : loops.momentum;
    return momentum(piece, arrays.first.get(), {kRate, 0.9F, false}, {});
  }
  const auto adam = past_cache ? loops.adam_past_cache : loops.adam;
  adam(piece, arrays.first.get(), arrays.second.get(),
       {.rate = kRate,
        .root_scale = 1.0F,
        .beta1 = 0.9F,
        .one_minus_beta1 = 0.1F,
        .beta2 = 0.999F,
        .one_minus_beta2 = 0.001F,
        .epsilon = 1e-8F},
       {});
}

// Loads and stores of one element.
int streams_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return 3;
    case Optimizer::kMomentum:
      return 5;
    case Optimizer::kAdam:
      return 7;
  }
  return 0;
}

// Into an array of its own. Seconds of processor time, the median.
double seconds_of_triad(const Arrays& arrays, int passes, benchmark::IterationCount runs) {
  const Array out = filled(arrays.n, 0.0F);
  std::vector<double> seconds;
  for (benchmark::IterationCount k = 0; k <= runs; ++k) {
    const bench::Seconds one = bench::time_of([&] {
      for (int pass = 0; pass < passes; ++pass) {
        in_best<triad>(arrays, out.get());
        benchmark::ClobberMemory();
      }
    });
    if (k > 0) seconds.push_back(one.cpu);  // the first brings its arrays into the cache
  }
  return bench::median(std::move(seconds));
}

struct Size {
  const char* name;
  std::int64_t floats;
  int pairs;
  int passes;  // of each of a pair: too few floats are gone through faster than a clock is read
};

// One iteration is one pair; the time that Google Benchmark shows is the loop's processor time, of all
// passes.
void measure(benchmark::State& state, Optimizer optimizer, Place place, const Kernels& loops,
             const Size& size) {
  const Arrays arrays(optimizer, place, size.floats);
  const auto several = [&](auto&& pass) {
    return [&size, pass] {
      for (int k = 0; k < size.passes; ++k) {
        pass();
        benchmark::ClobberMemory();
      }
    };
  };
  const auto limit = several([&] { run_limit(optimizer, place, arrays); });
  const auto loop = several([&] { run_loop(optimizer, place, loops, arrays); });
  const bench::Pairs pairs = bench::take_turns(state, limit, loop);
  const double gigabytes_of_one = 1e-9 * static_cast<double>(size.floats) * size.passes * sizeof(float);
  const double gigabytes = streams_of(optimizer) * gigabytes_of_one;
  const double triad_GBps =
      3 * gigabytes_of_one / seconds_of_triad(arrays, size.passes, state.max_iterations);
  state.counters["ratio"] = pairs.ratio;
  state.counters["ratio_wall"] = pairs.ratio_wall;
  state.counters["GBps"] = gigabytes / pairs.loop_cpu;
  state.counters["limit_GBps"] = gigabytes / pairs.limit_cpu;
  state.counters["triad_GBps"] = triad_GBps;
  state.counters["of_triad"] = gigabytes / pairs.loop_cpu / triad_GBps;
}

void register_all() {
  for (const Size& size :
       {Size{"1K", 1 << 10, 101, 1000}, Size{"1M", 1 << 20, 101, 1}, Size{"64M", 1 << 26, 15, 1}}) {
    for (const auto& [optimizer, name] : {std::pair{Optimizer::kSgd, "sgd"},
                                          {Optimizer::kMomentum, "momentum"},
                                          {Optimizer::kAdam, "adam"}}) {
      for (const auto& [place, where] : {std::pair{Place::kInPlace, "in_place"},
                                         {Place::kApart, "apart"},
                                         {Place::kPastCache, "past_cache"}}) {
        if (place == Place::kPastCache && size.floats <= kCachedFloatsMax) continue;  // as a server does
        for (InstructionSet set : {InstructionSet::kAvx512, InstructionSet::kAvx2, InstructionSet::kPlain}) {
          const Kernels* const loops = kernels::find(set);
          if (loops == nullptr) continue;
          const std::string title = std::string(name) + "/" + where + "/" + loops->name + "/" + size.name;
          benchmark::RegisterBenchmark(
              title.c_str(), [=](benchmark::State& state) { measure(state, optimizer, place, *loops, size); })
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond)
              ->Iterations(size.pairs);
        }
      }
    }
  }
}

// Of the loops that are in use.
bool misses_target(const benchmark::BenchmarkReporter::Run& run) {
  const std::string name = run.benchmark_name();
  const InstructionSet set = name.starts_with("adam") && kernels::find(InstructionSet::kAvx2) != nullptr
                                 ? InstructionSet::kAvx2
                                 : kernels::best().set;
  const bool in_use = name.find(std::string("/") + kernels::find(set)->name + "/") != std::string::npos;
  const bool judged = name.find("/1K") == std::string::npos;
  return in_use && judged && run.counters.at("ratio") < kTarget;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  char complaint[64];
  std::snprintf(complaint, sizeof complaint, "under %.2f of its limit", paceline::kTarget);
  return paceline::bench::run_judged(argc, argv, paceline::register_all, paceline::misses_target, complaint);
}
