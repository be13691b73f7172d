// A pipeline's step as text: which stage computes what when (Huang et al. 2018, figure 2c).
//
//   stage 0  F0-F1-.........B1----B0----
//   stage 1  ...F0-F1-B1----B0----......
#pragma once

#include <cstddef>
#include <string>

#include "common/schedule/pipeline.h"

namespace paceline::schedule {

// Stages as lines, in proportion: `columns` (at least 1) are a step, and dots where a stage waits. A pass has the name
// that to_string() gives it, and a dash at least: where it is shorter all lines are longer there, so that what is at
// the same time still is in one column. Lines that are longer than `columns` go on in further blocks; of very many
// those in the middle are left out. Empty: a step of no length.
std::string timeline(const PipelineTimes& times, std::size_t columns);

// What the names are, for a line below it.
constexpr const char* kTimelineLegend =
    "F forward, R forward once more, B backward; F2.1: of micro-batch 2, on the stage's second chunk; a pass "
    "shorter than "
    "its name is drawn longer\n";

}  // namespace paceline::schedule
