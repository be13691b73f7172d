// RunGeneration: which generation of the run a shard is in, and what it goes on from. A replica that follows
// has the same as the one that serves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/checkpoint_id.h"
#include "common/ids.h"
#include "common/incarnation.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::server {

struct RunGeneration {
  std::uint64_t number = 1;  // of a run that is resumed, once `resumed`
  bool resumes = false;      // it is one; of a replica that follows, once it knows
  bool resumed = false;      // this shard has what it goes on from
  Ticks resumed_at;          // since when
  std::optional<CheckpointId> from;
  std::uint64_t incarnation = new_incarnation();  // of the shard, whichever of its replicas serves

  bool waits() const { return resumes && !resumed; }
  // A process that has been in this generation, or a later one, of which this server knows nothing, has met
  // another server in this one's place: kFailedPrecondition.
  [[nodiscard]] Status check(const wire::Join& join, ShardId shard) const {
    if (join.last_generation < number) return Status::ok();
    return failed_precondition("node " + to_string(join.node) + ": it has been in generation " +
                               std::to_string(join.last_generation) + " of the run, expected one before " +
                               std::to_string(number) + ", which shard " + to_string(shard) + " is in");
  }
};

}  // namespace paceline::server
