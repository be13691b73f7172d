// The rules of the store and the caches broken on purpose once each (common/sync/test_hooks.h), and seen:
// with every mutant some random schedule over real sockets must be judged wrong, and with none none. So are
// those rules of the core whose breach shows in what is granted and read. The files are compiled into this
// program a second time, with the mutants in them; each mutant runs in a process of its own, since an
// assertion is as good a find as a checker's word.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/sync/test_hooks.h"
#include "server/store/gradient_store.h"
#include "tests/process/exact_evaluations.h"
#include "tests/process/random_schedule.h"
#include "tests/unit/compensation_walk.h"
#include "tests/unit/next_state.h"
#include "tests/unit/slow_readers.h"
#include "worker/cache/process_cache.h"
#include "worker/cache/thread_cache.h"
#include "worker/client/outstanding.h"
#include "worker/client/pulls.h"

namespace paceline::testing {
namespace {

using sync::Mutant;

constexpr std::uint64_t kSchedules = 120;  // most mutants are found within the first ten
constexpr int kAtATime = 4;

// Of the core: who is granted when, a threshold that moves, what the caches take for fresh, and who does what
// the lost leave. What the others break (a node's death half-way, the order of sums) the simulation sees
// (tests/sim/mutant_test.cc).
constexpr Mutant kCoreMutants[] = {Mutant::kFloorIsAverage,
                                   Mutant::kLeadOneTooFar,
                                   Mutant::kVersionBeforeAllArrived,
                                   Mutant::kThresholdUnclamped,
                                   Mutant::kWalkSameCoin,
                                   Mutant::kSwitchTooSoon,
                                   Mutant::kLprSignAsPrinted,
                                   Mutant::kStaleCacheAccepted,
                                   Mutant::kProcessCacheAlwaysFresh,
                                   Mutant::kReapplyForgetsNewest,
                                   Mutant::kReapplyRepeatsContained,
                                   Mutant::kLeftUndone,
                                   Mutant::kLostIterationForgotten};
constexpr unsigned kSecondsMax = 60;  // a run that hangs is no find

// Answers of one shard that arrive in any order, as they cannot over one connection: the process cache must
// never hold an older slice than it has held.
std::string violation_of_reordered_slices() {
  ProcessCache cache({Range{0, 1}});
  CounterRandom random(1, Stream::kTest);
  std::int64_t newest = -1;
  for (int i = 0; i < 100; ++i) {
    const auto revision = static_cast<std::int64_t>(random.next_below(50));
    auto slice = std::make_shared<Slice>();
    slice->range = {0, 1};
    slice->stamp = {Version(revision), Revision(revision), {Clock(0)}};
    cache.install(ShardId(0), slice);
    newest = std::max(newest, revision);
    const std::int64_t held = cache.slice(ShardId(0))->stamp.revision.value;
    if (held != newest) {
      return "the process cache went from revision " + std::to_string(newest) + " to " + std::to_string(held);
    }
  }
  return "";
}

// A slice lands, and a newer one is in the process cache before the thread takes that over: over real sockets
// a matter of microseconds between two threads of a node.
std::string violation_of_newer_than_landed() {
  const float numbers[] = {0, 1, 2};
  const auto slice = [&](std::int64_t revision) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&numbers[revision]);
    const wire::Payload payload{std::shared_ptr<const void>(bytes, [](const void*) {}), bytes, sizeof(float)};
    return std::make_shared<const Slice>(
        Slice{{0, 1}, {Version(revision), Revision(revision), {Clock(0)}}, {{0, payload}}});
  };
  ThreadCache cache(OptimizerSection{}, {Range{0, 1}}, 0);
  cache.refresh({slice(0)}, Clock(0));
  const auto landing = slice(1);
  cache.land(ShardId(0), landing->stamp, landing->pieces[0]);
  cache.refresh({slice(2)}, Clock(1));
  const float value = cache.parameters()[0];
  return value == 2.0F ? "" : "revision 2 is taken over, " + std::to_string(value) + " is there";
}

// Parameters in memory of a server that writes over them at once when they are let go of: over real sockets
// that takes another update. They are taken as they land, or copied: when they come and nobody waits, when
// the thread that waits does not take them, or gives up.
std::string violation_of_lent_parameters() {
  enum class Way { kLand, kNobodyWaits, kRefused, kGivenUp };
  struct Taker final : ParameterLanding {
    bool takes = true;
    std::vector<float> values = std::vector<float>(2);
    bool land(ShardId, const cache::SliceStamp&, const SlicePiece& piece) override {
      if (takes) piece.copy_to(values, Range{0, 2});
      return takes;
    }
  };
  for (const Way way : {Way::kLand, Way::kNobodyWaits, Way::kRefused, Way::kGivenUp}) {
    std::vector<float> lent{5, 6};
    ProcessCache cache({Range{0, 2}});
    Pulls pulls(cache, 1);
    Taker taker;
    taker.takes = way == Way::kLand;
    const Ticket ticket = way == Way::kNobodyWaits ? pulls.request(Version(1), Ticks(0)).ticket
                                                   : pulls.request_ahead(Version(1), Ticks(0)).ticket;
    for (std::int64_t at = 0; at < 2; ++at) {
      float* const place = &lent[static_cast<std::size_t>(at)];
      wire::Payload payload{std::shared_ptr<const void>(place, [place](const void*) { *place = NAN; }),
                            reinterpret_cast<const std::byte*>(place), sizeof(float)};
      payload.borrowed = true;
      const std::vector<Clock> applied(at == 0 ? 1 : 0, Clock(1));
      const wire::Parameters piece{ticket, ShardId(0), Version(1), Revision(1), at, at == 1, applied};
      const Status accepted = pulls.accept(ShardId(0), piece, std::move(payload), Ticks(1));
      if (!accepted.is_ok()) return accepted.message();
      const auto tired = [] { return true; };
      if (way == Way::kGivenUp && at == 0) (void)pulls.await_unless(tired, ticket, taker);
    }
    if (const auto landed = pulls.await(ticket, taker); !landed.is_ok()) return landed.status().message();
    const std::string how = "of what is lent (" + std::to_string(static_cast<int>(way)) + ") ";
    for (const float value : lent) {
      if (!std::isnan(value)) return how + "something is held";
    }
    if (!taker.takes) cache.slice(ShardId(0))->copy_to(taker.values);
    if (taker.values != std::vector<float>{5, 6}) return how + "something is taken too late";
  }
  return "";
}

// What is rare, or takes leases to be missed, in a run: behind a connection that broke parameters that had
// not come are asked for, and a gradient said, again; and one that was whole on a server, and lay in its
// worker's memory, is read there no more.
std::string violation_of_rejoining() {
  ProcessCache cache({Range{0, 2}});
  Pulls pulls(cache, 1);
  pulls.asked(pulls.request(Version(1), Ticks(0)).ticket);
  (void)pulls.part_with(ShardId(0));
  if (pulls.ask_again(ShardId(0)).size() != 1) return "parameters that have not come are not asked for again";
  Outstanding outstanding(1);
  outstanding.pushed(GradientPart{});
  if (outstanding.gradients() != 1) return "a gradient that has left is not said again";
  server::GradientStore store(Cluster{1, 1}, 2, 2, 4);
  std::vector<float> lent{5, 6};
  wire::Payload payload{std::shared_ptr<const void>(lent.data(), [](const void*) {}),
                        reinterpret_cast<const std::byte*>(lent.data()), 2 * sizeof(float)};
  payload.borrowed = true;
  wire::Push push;
  push.last = true;
  push.samples = 1;
  if (!store.add(push, std::move(payload)).is_ok()) return "a gradient is refused";
  store.copy_borrowed(NodeId(0));
  lent = {7, 8};
  return store.find(WorkerId(0, 0), Clock(0))->at(0) == 5.0F ? "" : "what is lent is read on";
}

// The first violation that any check finds; empty when none does.
std::string first_violation() {
  if (std::string found = violation_of_reordered_slices(); !found.empty()) return found;
  if (std::string found = violation_of_newer_than_landed(); !found.empty()) return found;
  if (std::string found = violation_of_lent_parameters(); !found.empty()) return found;
  if (std::string found = violation_of_rejoining(); !found.empty()) return found;
  if (sync::broken(Mutant::kExactAnsweredFromNow) || sync::broken(Mutant::kNone)) {
    if (std::string found = violation_of_evaluations(1); !found.empty()) return found;
  }
  const bool of_memory = sync::broken(Mutant::kSlowReadersNotCounted) || sync::broken(Mutant::kNone);
  for (std::uint64_t seed = 1; of_memory && seed <= kSchedules; ++seed) {
    if (std::string found = server::violation_of_slow_readers(seed); !found.empty()) return found;
  }
  const bool of_next = sync::broken(Mutant::kPreparedWhateverDecided) ||
                       sync::broken(Mutant::kPreparedKeptAfterLoss) || sync::broken(Mutant::kLateHeld) ||
                       sync::broken(Mutant::kNone);
  for (std::uint64_t seed = 1; of_next && seed <= kSchedules; ++seed) {
    if (std::string found = server::walk_next_state(seed).violation; !found.empty()) return found;
  }
  const bool of_backups = sync::broken(Mutant::kBackupIsNewest) || sync::broken(Mutant::kBackupWithoutOwn) ||
                          sync::broken(Mutant::kNone);
  for (std::uint64_t seed = 1; of_backups && seed <= kSchedules; ++seed) {
    if (std::string found = server::walk_compensation(seed).violation; !found.empty()) return found;
  }
  // What is said again matters only where connections break.
  const bool of_breaks = sync::broken(Mutant::kRepeatedPushTaken);
  const Network network = of_breaks ? Network::kBreaks : Network::kStands;
  std::atomic<std::uint64_t> next{1};
  std::atomic<bool> found{false};
  std::vector<std::string> first(kAtATime);
  std::vector<std::thread> threads;
  for (int t = 0; t < kAtATime; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t seed = next++; seed <= kSchedules && !found; seed = next++) {
        const std::vector<std::string> violations = violations_of(seed, nullptr, network);
        if (violations.empty()) continue;
        first[static_cast<std::size_t>(t)] = violations.front();
        found = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::string& violation : first) {
    if (!violation.empty()) return std::move(violation);
  }
  return "";
}

bool is_found(Mutant mutant) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(kSecondsMax);
    sync::active_mutant = mutant;
    const std::string violation = first_violation();
    std::printf("mutant %2d: %s\n", static_cast<int>(mutant), violation.c_str());
    std::fflush(stdout);
    _exit(violation.empty() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) return WEXITSTATUS(status) != 0;
  return WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("every_rule_of_grants_and_freshness_broken_on_purpose_is_found_over_sockets") {
  for (const Mutant mutant : kCoreMutants) {
    INFO("mutant " << static_cast<int>(mutant) << " of common/sync/test_hooks.h");
    CHECK(is_found(mutant));
  }
}

TEST_CASE("every_rule_of_store_and_caches_broken_on_purpose_is_found") {
  for (int m = static_cast<int>(Mutant::kCoreCount); m < static_cast<int>(Mutant::kCount); ++m) {
    INFO("mutant " << m << " of common/sync/test_hooks.h");
    CHECK(is_found(static_cast<Mutant>(m)));
  }
}

TEST_CASE("the_same_program_without_a_mutant_finds_nothing") { CHECK_FALSE(is_found(Mutant::kNone)); }

}  // namespace paceline::testing
