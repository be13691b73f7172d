// SavedComparison: whether the files that both of a shard's replicas have saved of a version are the same, as
// they are where both have come to the same state.
//
// Thread: the server's loop.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "common/log/log.h"
#include "server/replicas/uncommitted_outputs.h"

namespace paceline::server {

class SavedComparison {
 public:
  // `log` outlives this.
  explicit SavedComparison(const Log& log) : log_(log) {}

  // Errors: kDataLoss they differ.
  [[nodiscard]] Status compare(const std::optional<UncommittedOutputs::BothSaved>& saved) {
    if (!saved) return Status::ok();
    if (const Status same = saved->compare(); !same.is_ok()) {
      return Status(same).with_context("this replica has come to another state");
    }
    if (!saved->there.fault.empty() || saved->here.fault.empty()) return Status::ok();
    // A disk that stays full must not fill with that.
    log_.write(std::has_single_bit(++unsaved_) ? LogLevel::kWarn : LogLevel::kDebug,
               "the checkpoint of version " + to_string(saved->here.version) +
                   " is not on this replica's disk: " + saved->here.fault);
    return Status::ok();
  }

 private:
  const Log& log_;
  std::uint64_t unsaved_ = 0;  // checkpoints that the one that serves has, and this one has not
};

}  // namespace paceline::server
