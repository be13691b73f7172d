// Emulation: draws with mean 1 that depend on seed, worker and clock alone; slots that threads and processes
// share.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "tests/unit/temp_folder.h"
#include "worker/emulate/compute_slots.h"
#include "worker/emulate/emulator.h"
#include "worker/emulate/pace.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::TempFolder;

EmulateSection settings(JitterKind jitter, double spread = 0.3) {
  EmulateSection s;
  s.base_step = 100ms;
  s.slowdown = {1.0, 2.5};
  s.jitter = jitter;
  s.jitter_spread = spread;
  return s;
}

TEST_CASE("every kind of jitter has mean 1 and is never negative") {
  const JitterKind kind =
      GENERATE(JitterKind::kNone, JitterKind::kUniform, JitterKind::kLognormal, JitterKind::kExponential);
  CounterRandom random(1, Stream::kTest);
  double sum = 0.0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = jitter_draw(kind, 0.5, random);
    REQUIRE(draw >= 0.0);
    sum += draw;
  }
  // Standard deviation <= 0.54 / sqrt(100,000) = 0.0017; six of them.
  CHECK(sum / kDraws == Approx(1.0).margin(0.0102));
}

TEST_CASE("an emulated duration is base step, times the node's slowdown, times the draw") {
  const Cluster cluster{2, 1};
  CHECK(Emulator(settings(JitterKind::kNone), 1, cluster, WorkerId(0, 0), 10).duration(Clock(4), 10) ==
        Duration(100ms));
  CHECK(Emulator(settings(JitterKind::kNone), 1, cluster, WorkerId(1, 0), 10).duration(Clock(4), 10) ==
        Duration(250ms));
  // Balanced batches: proportional to the samples.
  CHECK(Emulator(settings(JitterKind::kNone), 1, cluster, WorkerId(1, 0), 10).duration(Clock(4), 4) ==
        Duration(100ms));
  CHECK(Emulator(EmulateSection{}, 1, cluster, WorkerId(0, 0), 10).duration(Clock(0), 10) == std::nullopt);
}

TEST_CASE("the draw depends on seed, worker and clock, and on nothing else") {
  const Cluster cluster{1, 2};
  EmulateSection s = settings(JitterKind::kLognormal);
  s.slowdown = {};
  const auto at = [&](std::uint64_t seed, std::uint32_t thread, std::int64_t clock) {
    return Emulator(s, seed, cluster, WorkerId(0, thread), 10).duration(Clock(clock), 10);
  };
  CHECK(at(1, 0, 5) == at(1, 0, 5));
  CHECK(at(1, 0, 5) != at(2, 0, 5));
  CHECK(at(1, 0, 5) != at(1, 1, 5));
  CHECK(at(1, 0, 5) != at(1, 0, 6));
}

TEST_CASE("no more threads compute at once than there are slots") {
  const TempFolder folder;
  auto slots = ComputeSlots::open(folder.path().string(), 2).value();
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto slot = slots->acquire(20s);
        if (!slot.is_ok()) return;
        const int now = ++inside;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= 2);
  CHECK(slots->acquire(0s).is_ok());
}

TEST_CASE("two processes' slots are the same ones: a slot held through one file is taken for the other") {
  const TempFolder folder;
  auto mine = ComputeSlots::open(folder.path().string(), 1).value();
  auto theirs =
      ComputeSlots::open(folder.path().string(), 1).value();  // other descriptors, as in another process
  auto held = std::make_unique<ComputeSlot>(mine->acquire(0s).value());
  CHECK(theirs->acquire(0s).status().code() == StatusCode::kDeadlineExceeded);
  auto waiting = std::async(std::launch::async, [&] { return theirs->acquire(20s).is_ok(); });
  held.reset();
  CHECK(waiting.get());
}

TEST_CASE(
    "slots whose files are removed still are those of all who opened them, and another run's files stay") {
  const TempFolder folder;
  auto mine = ComputeSlots::open(folder.path().string(), 1).value();
  auto theirs = ComputeSlots::open(folder.path().string(), 1).value();
  mine->remove_files();
  CHECK(std::filesystem::is_empty(folder.path()));
  {
    const ComputeSlot held = mine->acquire(0s).value();
    CHECK(theirs->acquire(0s).status().code() == StatusCode::kDeadlineExceeded);
  }
  auto other_run = ComputeSlots::open(folder.path().string(), 1).value();
  theirs->remove_files();
  CHECK(std::filesystem::exists(folder / "compute-slot-0"));
}

TEST_CASE("the slot of a process that dies is free again") {
  const TempFolder folder;
  auto slots = ComputeSlots::open(folder.path().string(), 1).value();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {  // locks as another process would, and waits to be killed
    const int file = ::open((folder / "compute-slot-0").c_str(), O_RDWR);
    const char locked = ::flock(file, LOCK_EX) == 0 ? 1 : 0;
    (void)!::write(ready[1], &locked, 1);
    ::pause();
    ::_exit(0);
  }
  char locked = 0;
  REQUIRE(::read(ready[0], &locked, 1) == 1);
  REQUIRE(locked == 1);
  CHECK(slots->acquire(0s).status().code() == StatusCode::kDeadlineExceeded);
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK(slots->acquire(20s).is_ok());
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("stop releases who waits for a slot, and who sleeps out an iteration") {
  const TempFolder folder;
  auto slots = ComputeSlots::open(folder.path().string(), 1).value();
  const ComputeSlot held = slots->acquire(0s).value();
  auto first = std::async(std::launch::async, [&] { return slots->acquire(60s).status().code(); });
  auto second = std::async(std::launch::async, [&] { return slots->acquire(60s).status().code(); });
  slots->stop();
  CHECK(first.get() == StatusCode::kAborted);
  CHECK(second.get() == StatusCode::kAborted);

  SteadyPaceClock pace;
  const Ticks begin = pace.now();
  auto sleeping = std::async(std::launch::async, [&] { pace.wait_until(begin + 60s); });
  pace.stop();
  sleeping.get();
  CHECK(pace.now() - begin < 30s);
}

TEST_CASE("a folder that is not there is named") {
  const auto slots = ComputeSlots::open("/nonexistent/folder", 1);
  REQUIRE_FALSE(slots.is_ok());
  CHECK_THAT(slots.status().message(), Catch::Contains("/nonexistent/folder/compute-slot-0"));
}

}  // namespace
}  // namespace paceline
