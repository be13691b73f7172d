// RunningIteration: what the authority knows of the iteration a worker is in. It is complete once the worker
// reported it and every shard holds its gradient, in whichever order: a clock that moved earlier would let
// the min clock pass a gradient that can still be lost with its sender.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "common/sync/events.h"

namespace paceline::sync {

// There is one for each worker, and with many workers each message finds its own out of the processor's
// caches: so it is small, and nothing that an ordinary step needs lies elsewhere (docs/PERFORMANCE.md).
//
// Thread: one.
class RunningIteration {
 public:
  static constexpr std::uint32_t kShardsMax = 64;

  // `shards`: 1 to kShardsMax.
  explicit RunningIteration(std::uint32_t shards) : shards_(static_cast<std::uint8_t>(shards)) {}

  // A new iteration was granted: nothing of it is known yet but that it is computed with no less than the
  // one before, from so many samples, or from as many as its worker says.
  static constexpr std::int64_t kAnySamples = 0;
  void begin(std::int64_t iteration, Version min_version, std::int64_t samples);
  // The same of one that is granted while its worker is in `before`, which goes on.
  void begin_after(const RunningIteration& before, std::int64_t iteration, Version min_version,
                   std::int64_t samples);

  // What its worker computes with from here on is of `revision` at least: its caches are empty, and it is to
  // ask for a version that begins with that. Said before the grant of a worker that has come late.
  void reads_no_older_than(Revision revision) { computed_revision_ = revision; }

  // A shard holds its gradient. The worker and clock are this iteration's, the shard exists.
  // Errors, which change nothing: kOutOfOrder the shard said so before; kInvalidArgument weight < 1 or
  // another than was granted, another shard's or the report's samples.
  Status add(const GradientArrived& arrival);

  // The worker reports it; `version` and `revision` are the newest decided.
  // Errors, which change nothing: kOutOfOrder a second report; kInvalidArgument impossible metric or version,
  // other samples than were granted or are the gradient's weight, or empty although a gradient arrived;
  // kFailedPrecondition parameters older than the grant allowed, or more own updates than those may lack.
  Status add(const StepReported& report, Version version, Revision revision);

  bool whole() const { return arrivals_ == shards_; }
  bool reported() const { return reported_; }
  // Something has come of it.
  bool begun() const { return reported_ || arrivals_ > 0; }
  // Bit k: shard k does not hold its gradient, and is to.
  std::uint64_t lacking() const { return reported_ && empty_ ? 0 : all_shards() & ~arrived_; }
  bool complete() const;
  // The gradient is whole and can be applied.
  bool has_gradient() const { return whole() && fault_ == nullptr; }

  std::int64_t iteration() const { return iteration_; }
  std::int64_t weight() const { return weight_; }
  const Metric& metric() const { return metric_; }
  // Of the parameters it was computed with; none before it is reported.
  Version computed_version() const { return reported_ ? computed_version_ : kNoVersion; }
  Revision computed_revision() const { return reported_ ? computed_revision_ : kNoRevision; }
  // The updates in the parameters it was computed with, own ones included; and the version of these. What its
  // report says; before it (it is lost with its node) what the last one said, or the grant asked for, since
  // caches never go back.
  std::int64_t updates_known() const {
    return std::max<std::int64_t>(computed_revision_.value, 0) + own_updates_;
  }
  Version version_known() const { return std::max(computed_version_, min_version_); }
  // What was not finite, as far as is known; empty: nothing.
  const std::string& fault() const;

 private:
  std::uint64_t all_shards() const { return ~std::uint64_t{0} >> (kShardsMax - shards_); }
  // The first fault counts.
  void note(const std::string& fault);

  std::uint64_t arrived_ = 0;      // bit k: shard k holds it
  std::uint32_t own_updates_ = 0;  // in the parameters it was computed with, besides
  std::uint8_t shards_;
  std::uint8_t arrivals_ = 0;
  bool reported_ = false;
  bool empty_ = false;
  std::int64_t weight_ = kAnySamples;  // as granted, else as the first shard says
  std::int64_t iteration_ = 0;
  Version min_version_;
  Version computed_version_ = kNoVersion;
  Revision computed_revision_ = kNoRevision;
  Metric metric_;
  std::unique_ptr<const std::string> fault_;  // apart, being rare
};

}  // namespace paceline::sync
