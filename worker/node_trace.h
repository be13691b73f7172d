// NodeTrace: what a node records of its training threads, and of the buckets of an all-reduce (run.trace), over all its
// sessions, and its part of the run's trace, trace-node-<i>.json in its run directory.
//
// Thread: spans() of one thread belong to it while it trains; add() any; the rest is called when none trains.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/newest.h"
#include "common/schedule/pass_span.h"
#include "common/status.h"
#include "common/timing/bucket_span.h"
#include "common/timing/phase_span.h"

namespace paceline {

class NodeTrace {
 public:
  NodeTrace(const RunConfig& config, NodeId node);

  PhaseSpans* spans(std::uint32_t thread) { return &threads_[thread]; }
  // Of a stage of a pipeline; else null.
  schedule::PassSpans* passes() { return passes_ ? &*passes_ : nullptr; }
  void add(const BucketSpan& span);
  // All that has been recorded so far; replaces what was written before. Errors: kUnavailable the run
  // directory cannot be made; those of common/files/atomic_file.h.
  [[nodiscard]] Status write() const;

 private:
  const RunConfig& config_;
  const NodeId node_;
  std::vector<PhaseSpans> threads_;
  std::optional<schedule::PassSpans> passes_;
  mutable std::mutex mutex_;
  Newest<BucketSpan> buckets_;
};

}  // namespace paceline
