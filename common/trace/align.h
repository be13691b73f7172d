// One clock for a trace whose processes ran on several machines. A steady clock counts from its machine's
// start, so that of a node differs from the authority's by an unknown constant d, which is to be added. No
// message carries time, but each that both ends recorded bounds d, as in the probes of NTP (RFC 5905, section
// 8):
//
//   a grant is decided at a, and the worker goes on at w          a <= w + d
//   a worker begins its exchange at w', and its report is taken at a'       w' + d <= a'
//
// All iterations together: d lies between the largest a - w and the smallest a' - w', and the middle is wrong
// by half of their distance at most: half of the fastest two ways that were seen. Drift is not modelled.
//
//   grants 5.0 -> 1.2, reports 1.4 -> 5.5 (s): d >= 3.8, d <= 4.1; moved by 3.95 s, at most 0.15 s wrong
//
// Processes of one machine have one clock: moved by nothing. Where nothing bounds d, the machines' wall
// clocks are taken, and how wrong they are is not known.
#pragma once

#include <chrono>
#include <optional>

#include "common/trace/trace.h"

namespace paceline::trace {

struct Alignment {
  std::chrono::nanoseconds shift{0};
  std::optional<std::chrono::nanoseconds> error;
};

// Of `node`, a process whose workers are in `of_node`, against the authority, whose part is `authority`.
Alignment alignment(const Trace& authority, const Process& decides, const Trace& of_node,
                    const Process& node);

}  // namespace paceline::trace
