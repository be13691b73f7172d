// StateDurations: how long a version of a shard usually is the current one, and how long an older state usually
// takes to leave, on a slow network long: as the ticks see it. For whoever has to say what is unusual.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include "common/clock.h"
#include "common/instant.h"
#include "common/log/stall_log.h"
#include "server/store/reply_window.h"
#include "server/store/shard.h"

namespace paceline::server {

class StateDurations {
 public:
  void look(const Shard& shard, ReplyWindow& leaving, Ticks now) {
    if (shard.now().version != version_) {
      if (version_ >= Version(0)) versions_.took(now - reached_at_);
      version_ = shard.now().version;
      reached_at_ = now;
    }
    const Revision older = leaving.keeps_older(shard.now()) ? leaving.state()->revision : kNoRevision;
    if (older == leaves_) return;
    if (leaves_ != kNoRevision) leavings_.took(now - leaves_since_);
    leaves_ = older;
    leaves_since_ = now;
  }

  std::chrono::nanoseconds usual_of_version() const { return versions_.usual(); }
  std::chrono::nanoseconds usual_of_leaving() const { return leavings_.usual(); }

 private:
  DurationBaseline versions_;
  Version version_ = kNoVersion;
  Ticks reached_at_;
  DurationBaseline leavings_;
  Revision leaves_ = kNoRevision;  // the one that does
  Ticks leaves_since_;
};

}  // namespace paceline::server
