// One clock for a trace whose processes ran on several machines. A steady clock counts from its machine's
// start, so that of a node differs from the authority's by an unknown constant d, which is to be added. No
// message carries time, but each that both ends recorded bounds d, as in the probes of NTP (RFC 5905, section
// 8):
//
//   a grant is decided at a, and the worker goes on at w          a <= w + d
//   a worker begins its exchange at w', and its report is taken at a'       w' + d <= a'
//
// All iterations together: d lies between the largest a - w and the smallest a' - w', and the middle is wrong
// by half of their distance at most: half of the fastest two ways that were seen.
//
//   grants 5.0 -> 1.2, reports 1.4 -> 5.5 (s): d >= 3.8, d <= 4.1; moved by 3.95 s, at most 0.15 s wrong
//
// Where clocks drift d is no constant. Over a long run it changes by more than messages take, and then the
// largest a - w is above the smallest a' - w'. The middle is still the best there is. Let D be what clocks
// drift apart in the time between the first and the last of these: 100 ppm of that time, or what is seen, if
// more. Then d was always between largest - D and smallest + D, so the middle is wrong by at most D less half
// of the distance. Drift that the bounds leave room for is not seen, and is not in the error.
//
//   50 ppm, 1000 s, messages of 1 ms: d from 0 to -50 ms, bounds >= -1 ms and <= -49 ms; moved by -25 ms, at
//   most 100 - 24 = 76 ms wrong
//
// Processes of one machine have one clock: moved by nothing. Where d is bounded from one side alone, that
// bound is taken, where it is from none, the machines' wall clocks; how wrong they are is not known.
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
