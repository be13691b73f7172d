// For how long a rank looks at others' memory before it sleeps.
#include "worker/mesh/spin.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/unit/temp_folder.h"

namespace paceline::mesh {
namespace {

// Each look at it takes 10 us.
Ticks slow_clock() {
  static Ticks now{0};
  return now = now + std::chrono::microseconds(10);
}

// On two processors, where the machine says this of its load: looks until the sleep.
int polls(const std::string& load) {
  const testing::TempFolder folder;
  const auto file = folder / "loadavg";
  std::ofstream(file) << load << "\n";
  Spin spin(RunningThreads(2, file), slow_clock);
  int polls = 1;
  while (spin.goes_on()) ++polls;
  return polls;
}

constexpr int kWhileItMayLast = 4;  // of the clock's, within 50 us

}  // namespace

TEST_CASE("who waits looks on for as long as a sleep costs, while every thread has a processor") {
  CHECK(polls("0.20 0.18 0.12 1/80 11206") == Spin::kPolls + kWhileItMayLast);
  CHECK(polls("9.20 8.18 7.12 2/80 11206") == Spin::kPolls + kWhileItMayLast);
}

TEST_CASE("who waits sleeps soon where another thread waits for a processor, or nobody says") {
  CHECK(polls("0.20 0.18 0.12 3/80 11206") == Spin::kPolls);
  CHECK(polls("0.20 0.18 0.12 2") == Spin::kPolls);
  CHECK(polls("0.20 0.18 0.12") == Spin::kPolls);
  CHECK(polls("0.20 0.18 0.12 many/80") == Spin::kPolls);
  CHECK(polls("0.00 0.00 0.00 0/0 0") == Spin::kPolls);  // gVisor's
}

TEST_CASE("whenever something moves the looks are counted anew") {
  Spin spin(RunningThreads(2, "/nowhere"), slow_clock);
  for (int poll = 1; poll < Spin::kPolls; ++poll) CHECK(spin.goes_on());
  spin.end();
  CHECK(spin.goes_on());
}

}  // namespace paceline::mesh
