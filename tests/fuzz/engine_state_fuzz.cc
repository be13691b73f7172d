// Throws bytes at the reader of a synchronisation core's state (common/checkpoint/engine_state.h), and what
// it takes at the engine that would go on from it. Bytes are a state or refused with a reason; a state comes
// back from its bytes as it was; a run that accepts it goes on, whatever is in it, and meets no assertion.
//
// As a test: states of runs, saved half-way, whose bytes are mutated by a seeded generator; a failure prints
// the round, which reproduces it. With PACELINE_FUZZER (clang): the same property under libFuzzer.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/engine_state.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/mutate.h"
#include "tests/unit/resume_fixture.h"

namespace paceline::sync {
namespace {

constexpr std::uint32_t kNodes = 4;
constexpr std::int64_t kIterations = 200;

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "engine state fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

// Each keeps something that the others do not: a threshold, ranges left with gaps, nothing left at all, a
// stage, sizes of mini-batches.
std::vector<EngineConfig> configs() {
  EngineConfig plain;
  plain.cluster = {kNodes, 1};
  plain.total_iterations = kIterations;
  plain.window_clocks = 2;
  EngineConfig dtssp = plain;
  dtssp.policy.kind = PolicyKind::kDtssp;
  EngineConfig pool = plain;
  pool.policy.kind = PolicyKind::kAsp;
  pool.apply = ApplyMode::kEager;
  pool.combine = CombineMode::kEach;
  pool.share = Share::kPool;
  EngineConfig backup = plain;
  backup.policy.kind = PolicyKind::kBackup;
  EngineConfig switching = plain;
  switching.policy.kind = PolicyKind::kSwitch;
  switching.policy.stages = {{PolicyKind::kBsp, 3, 3, 10, {StageEnd::kVersion, 5}, {}},
                             {PolicyKind::kDtssp, 4, 3, 10, {StageEnd::kVersion, 8}, {}},
                             {PolicyKind::kAsp, 3, 3, 10, {}, {}}};
  EngineConfig balanced = plain;
  balanced.batch_sizing = BatchSizing::kBySpeed;
  return {dtssp, pool, backup, switching, balanced};
}

// Whoever has something to do completes it, in an order that `random` says.
void go_on(SavedCast& cast, int iterations, CounterRandom& random) {
  for (int i = 0; i < iterations; ++i) {
    const auto node = static_cast<std::uint32_t>(random.next_below(kNodes));
    if (cast.iteration(node) >= 0) cast.complete(node, static_cast<std::int64_t>(random.next_below(64)));
  }
}

enum class Taken { kNoState, kOtherRun, kResumed };

Taken check(std::string_view bytes, const EngineConfig& config) {
  const Result<EngineState> state = checkpoint::engine_state_from_bytes(bytes);
  if (!state.is_ok()) {
    if (state.status().code() != StatusCode::kDataLoss) fail("wrong code", state.status().message());
    return Taken::kNoState;
  }
  const std::string written = checkpoint::to_bytes(*state);
  const Result<EngineState> back = checkpoint::engine_state_from_bytes(written);
  if (!back.is_ok()) fail("what was written is refused", back.status().message());
  if (checkpoint::to_bytes(*back) != written) fail("changed on the way", std::to_string(written.size()));
  Result<Engine> engine = Engine::resumed(config, *state);
  if (!engine.is_ok()) {
    if (engine.status().code() != StatusCode::kInvalidArgument) fail("wrong code", engine.status().message());
    return Taken::kOtherRun;
  }
  SavedCast cast(std::move(engine).value());
  for (std::uint32_t node = 0; node < kNodes; ++node) cast.join(node);
  CounterRandom random(7, Stream::kTest, bytes.size());
  go_on(cast, 20, random);
  if (cast.engine().started()) checkpoint::to_bytes(cast.engine().state());
  return Taken::kResumed;
}

#ifndef PACELINE_LIBFUZZER
std::string some_state(const EngineConfig& config) {
  SavedCast cast(config);
  CounterRandom random(3, Stream::kTest, 1);
  go_on(cast, 60, random);
  return checkpoint::to_bytes(cast.engine().state());
}

int run(std::uint64_t rounds) {
  const std::vector<EngineConfig> all = configs();
  int bad = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    const std::string good = some_state(all[c]);
    if (check(good, all[c]) != Taken::kResumed) fail("what a run saved is refused", std::to_string(c));
    std::uint64_t states = 0;
    std::uint64_t resumed = 0;
    for (std::uint64_t round = 0; round < rounds / all.size(); ++round) {
      CounterRandom random(7, Stream::kTest, round);
      std::string bytes = good;
      testing::mutate(bytes, random);
      const Taken taken = check(bytes, all[c]);
      if (bytes == good) continue;
      if (taken != Taken::kNoState) ++states;
      if (taken == Taken::kResumed) ++resumed;
    }
    std::printf("engine state fuzz: run %zu: of %llu changed states that were read %llu were resumed\n", c,
                static_cast<unsigned long long>(states), static_cast<unsigned long long>(resumed));
    // Changed ones must get through now and then, or the mutations reach nothing.
    if (resumed == 0) ++bad;
  }
  return bad == 0 ? 0 : 1;
}
#endif

}  // namespace
}  // namespace paceline::sync

#ifdef PACELINE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::sync;
  static const std::vector<EngineConfig> all = configs();
  for (const EngineConfig& config : all) check({reinterpret_cast<const char*>(data), size}, config);
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace paceline::sync;
  if (const char* folder = paceline::testing::corpus_folder(argc, argv)) {
    std::vector<std::string> states;
    for (const EngineConfig& config : configs()) states.push_back(some_state(config));
    return paceline::testing::write_corpus(folder, states);
  }
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 50'000);
}
#endif
