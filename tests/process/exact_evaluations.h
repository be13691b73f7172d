// "Evaluation of one exact version", judged with the counting model: a run over three shards in which
// versions advance while each one is evaluated.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::testing {

// The first of these that did not hold, empty when all did: every evaluation sees every element, whichever
// shard holds it, equal to the version evaluated; that is a version that was due, newer than the one before;
// the last is the final one. Thread: any.
std::string violation_of_evaluations(std::uint64_t seed);

}  // namespace paceline::testing
