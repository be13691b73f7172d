// "Evaluation of one exact version", judged with the counting model: a run over three shards in which
// versions advance while each one is evaluated.
#pragma once

#include <cstdint>
#include <string>

#include "common/config/run_config.h"

namespace paceline::testing {

// How parameters travel.
struct EvaluationRun {
  const char* what = "in frames of a few floats";
  const char* endpoint = nullptr;  // else ipc
  std::int64_t rows = 3;           // of one float for each of the four workers
  SharedMemory shared_memory = SharedMemory::kOff;
  Encoding encoding = Encoding::kFp32;  // of gradients, and of all parameters but exact ones
};

// The first of these that did not hold, empty when all did: every evaluation sees every element, whichever
// shard holds it, equal to the version evaluated; that is a version that was due, newer than the one before;
// the last is the final one. Thread: any.
std::string violation_of_evaluations(std::uint64_t seed, const EvaluationRun& how = {});

}  // namespace paceline::testing
