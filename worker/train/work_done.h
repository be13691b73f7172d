// What a worker has done in a session (worker/session.h), for the node's report at its end (worker/node_totals.h).
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/timing/phase_totals.h"

namespace paceline {

struct WorkDone {
  WorkerId worker{};
  PhaseTotals phases{};
  std::int64_t iterations = 0;
  std::int64_t skipped = 0;          // NaN under on_nan: skip
  std::int64_t overruns = 0;         // emulated steps that did not fit (docs/CONFIG.md)
  std::int64_t bytes_early = 0;      // of gradients, handed over while the rest was computed
  std::int64_t parameter_reads = 0;  // all; those a cache answered: parameter_reads - server_reads
  std::int64_t server_reads = 0;     // those that had to wait for a server
};

}  // namespace paceline
