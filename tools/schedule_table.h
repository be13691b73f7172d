// `paceline schedule --ranks …`: how long each algorithm takes on assumed links, by ranks and bytes, and from how many
// ranks on which is faster than the ring (Goyal et al. 2017, §4; Ying et al. 2018, §2.2).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/schedule/algorithm.h"
#include "common/status.h"

namespace paceline {

struct ScheduleTable {
  std::vector<std::uint32_t> ranks = {};  // >= 1 each
  std::vector<std::int64_t> bytes = {};   // of a reduction, of floats; each a row; >= 4 each
  std::vector<schedule::Algorithm> algorithms = {};
};

// Plans, checks and times each on `config`'s links. Errors: kInvalidArgument, bandwidths of single nodes, of which the
// ranks are not; those of planners and checker.
[[nodiscard]] Status print_table(const ScheduleTable& table, const RunConfig& config, std::ostream& out);

// What is assumed of the links, as part of a line.
std::string words_of_links(const RunConfig& config);

// "12.3 ms", three figures.
std::string milliseconds_text(double seconds);

}  // namespace paceline
