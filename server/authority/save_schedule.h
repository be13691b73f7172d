// When a checkpoint is due (config: checkpoint.every_clocks or checkpoint.every), or because somebody asks
// for one. One is under way at a time: a multiple that comes by meanwhile is left out, a time that comes by
// is caught up with, and so is what was asked for. The last state of a run is saved where one of these is set
// or somebody has asked, and where run.max_seconds may end it before its work is done.
//
// Worked example, every_clocks 10: version 9 -> nothing; 12 -> due, since 10 was passed; 20 while that is
// being written -> left out; it is written; 21 -> nothing; 30 -> due.
//
// Pure. Thread: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/instant.h"

namespace paceline::server {

class SaveSchedule {
 public:
  explicit SaveSchedule(const RunConfig& config)
      : config_(config.checkpoint), saves_end_(config_.enabled() || config.run.max_seconds) {}

  // Whether anything is ever saved, and be it the end; from the first time on that somebody asks, whatever
  // the configuration says.
  bool enabled() const { return saves_end_ || was_asked_; }

  // The next version is due.
  void ask() { asked_ = was_asked_ = true; }

  // Training begins, or goes on, at `version`, of which there is nothing to save.
  void begin(Version version, Ticks now) {
    seen_ = saved_ = written_ = version;
    since_ = now;
  }

  // `version` has been reached. True: it is to be saved, and that is under way from now on. `wanted`: it is
  // due whatever the schedule says.
  bool reached(Version version, Ticks now, bool wanted = false) {
    const bool due = version > saved_ && (wanted || is_due(version, now));
    seen_ = std::max(seen_, version);
    if (!due) return false;
    if (under_way_) {
      if (config_.every_clocks) ++left_out_;
      return false;
    }
    start(version, now);
    return true;
  }
  // The last state of a run that is stopped, whatever is due; false: it is saved, or something is under way.
  bool reached_last(Version version, Ticks now) {
    if (!enabled() || under_way_ || version <= saved_) return false;
    start(version, now);
    return true;
  }
  // What was under way is written.
  void written() {
    under_way_ = false;
    written_ = saved_;
  }
  // Or is not, so that version is still to be saved if it is the last.
  void failed() {
    under_way_ = false;
    saved_ = written_;
  }

  bool under_way() const { return under_way_; }
  Version saved() const { return saved_; }
  std::int64_t left_out() const { return left_out_; }

 private:
  bool is_due(Version version, Ticks now) const {
    if (asked_) return true;
    if (config_.every) return now - since_ >= *config_.every;
    if (!config_.every_clocks) return false;
    return version.value / *config_.every_clocks > seen_.value / *config_.every_clocks;
  }
  void start(Version version, Ticks now) {
    under_way_ = true;
    asked_ = false;
    saved_ = version;
    since_ = now;
  }

  const CheckpointSection config_;
  const bool saves_end_;
  Version seen_;
  Version saved_;    // the last that was begun and has not failed
  Version written_;  // the last that is written
  Ticks since_;
  bool under_way_ = false;
  bool asked_ = false;
  bool was_asked_ = false;
  std::int64_t left_out_ = 0;
};

}  // namespace paceline::server
