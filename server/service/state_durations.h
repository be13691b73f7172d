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
  void observe(const Shard& shard, ReplyWindow& replies, Ticks now) {
    if (shard.now().version != version_) {
      if (version_ >= Version(0)) versions_.took(now - reached_at_);
      version_ = shard.now().version;
      reached_at_ = now;
    }
    const Revision older = replies.keeps_older(shard.now()) ? replies.state()->revision : kNoRevision;
    if (older == older_) return;
    if (older_ != kNoRevision) reply_times_.took(now - older_since_);
    older_ = older;
    older_since_ = now;
  }

  std::chrono::nanoseconds usual_of_version() const { return versions_.usual(); }
  std::chrono::nanoseconds usual_of_replies() const { return reply_times_.usual(); }

 private:
  DurationBaseline versions_;
  Version version_ = kNoVersion;
  Ticks reached_at_;
  DurationBaseline reply_times_;
  Revision older_ = kNoRevision;  // the state that replies keep
  Ticks older_since_;
};

}  // namespace paceline::server
