// One random schedule over real sockets, judged: a run drawn from a seed (random_run.h), with jitter, nodes
// that finish early and nodes that leave, every read of the counting model checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::testing {

class Coverage;

// Runs the schedule of `seed`; every violation of a guarantee, and whatever else went wrong, as sentences.
// What has run is counted in `coverage`, if there is one. Thread: any; several may run at a time.
std::vector<std::string> violations_of(std::uint64_t seed, Coverage* coverage = nullptr);

}  // namespace paceline::testing
