// The page of `paceline speedup`: the gain of each number of workers and local steps as a heat map, and what becomes of
// it as exchanges cost more, as lines. One file without any script.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sweep/speedup.h"

namespace paceline {

struct SpeedupPage {
  double target = 0.0;      // the accuracy, 0..1
  std::int64_t serial = 1;  // mini-batches of one worker alone
  std::span<const sweep::RoundsNeeded> runs;
  std::vector<std::int64_t> workers;      // rows of the map, and a pair of lines each
  std::vector<std::int64_t> local_steps;  // columns
  std::string remarks = {};               // why runs are marked with a *, or never got there: lines
  std::optional<double> measured = {};    // what an exchange takes here, in mini-batches: a mark
};

// The HTML text.
std::string speedup_page(const SpeedupPage& page);

}  // namespace paceline
