// Checkpoints of a run that trains, at the authority: when one is due, which shards have written their part,
// and the manifest that makes the parts one checkpoint.
//
//   due()      a decision is about to leave; true: every shard is to save the state after it
//   begin()    what the authority itself must save of that moment
//   on(Saved)  a shard's file is on its disk, or why not
//              when all have answered, in the background: the manifest is written and what is too old
//              removed, or what there is of this checkpoint is removed
//
// Whatever goes wrong costs this checkpoint and nothing else: it is said, and the next one is tried when it
// is due. One is under way at a time.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint_id.h"
#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/authority/save_schedule.h"
#include "server/checkpoint/folder.h"
#include "server/loop/background.h"
#include "server/peers/last_seen.h"
#include "server/peers/peer.h"

namespace paceline::server {

class Checkpoints {
 public:
  // How long a shard that is alive may take, in leases, to write its part of one.
  static constexpr int kLeases = 60;

  // `over` is called when one is written or given up, never from within a call of this. `outbox`,
  // `background` and `log` outlive this, and this all that `background` still calls.
  // `resumed`: what the run goes on from, as `generation`.
  Checkpoints(const RunConfig& config, std::uint64_t generation, std::optional<CheckpointId> resumed,
              Outbox& outbox, Background& background, const Log& log, std::function<void(Ticks now)> over);
  Checkpoints(const Checkpoints&) = delete;

  bool enabled() const { return schedule_.enabled(); }
  // Training begins at `version`, or goes on there.
  void begin_training(Version version, Ticks now) { schedule_.begin(version, now); }

  // The next version is to be saved, whether one is due or not.
  void ask() { schedule_.ask(); }

  // The decision that reaches `version` is about to be sent. True: its `save` is to be set, and begin()
  // called before anything else.
  // `evaluated`: it will be evaluated, which with checkpoint.keep_best makes it due.
  [[nodiscard]] bool due(Version version, Ticks now, bool evaluated) {
    return !is_owed(version) && schedule_.reached(version, now, evaluated && keep_best_);
  }
  // The same of the last state of a run that is stopped, which is always due, if it is not saved yet.
  [[nodiscard]] bool due_at_stop(Version version, Ticks now);
  // `manifest` of the state after that decision, but for what is the same in all of this run's, and without
  // the shards' files.
  void begin(Manifest manifest, Ticks now);

  // Errors: kInvalidArgument in the name of another shard. What comes too late or twice is ignored.
  [[nodiscard]] Status on(ShardId from, const wire::Saved& saved, Ticks now);

  // checkpoint.keep_best: `version` is being evaluated, so one of it stays until that is known; and what came
  // of it: its test accuracy, 0..1, or nothing. The checkpoint with the best one stays.
  void will_be_evaluated(Version version);
  void evaluated(Version version, std::optional<double> accuracy);

  bool under_way() const { return schedule_.under_way(); }
  // The last version that is saved, or being saved; before the first one that at which training began.
  Version saved() const { return schedule_.saved(); }
  // Nobody waits for the shards that have not answered in time any longer. A disk of this process's own that hangs is
  // not given up: the model is to be written there, too.
  void check(Ticks now);
  // The shards whose files are still being written.
  std::vector<ShardId> missing() const;

  // Of this generation.
  std::int64_t written() const { return written_; }
  std::int64_t failed() const { return failed_; }
  // The newest that is whole, of this generation or the one that was resumed from; on this process's disk,
  // where another one counts them.
  std::optional<CheckpointId> newest() const { return newest_; }
  // The newest of this generation that counts as whole, wherever it is: the same at all of a shard's
  // replicas.
  std::optional<CheckpointId> counted() const { return counted_; }

 private:
  struct Current {
    Manifest manifest;
    std::vector<bool> answered;  // by shard
    std::string faults;
  };
  void finish(Ticks now);
  bool is_owed(Version version) const { return version == given_up_ && !owing_.empty(); }
  std::vector<CheckpointId> spared() const;
  void consider(CheckpointId id);
  void forget_old_measures();
  // What became of the older ones: which is the oldest that is kept, where that is known.
  struct Older {
    std::optional<CheckpointId> oldest_kept;
    Status status;
  };
  void on_written_here(CheckpointId id, const Older& older);
  void on_written(CheckpointId id, const Status& written, std::uint64_t bytes, Ticks now);
  void on_failed(CheckpointId id, const std::string& why);

  const std::uint32_t shards_;
  const std::chrono::nanoseconds lease_;
  const std::size_t keep_;
  const bool keep_best_;
  const std::uint64_t generation_;
  const std::uint64_t fingerprint_;
  const std::vector<std::string> settings_;
  Outbox& outbox_;
  Background& background_;
  const Log& log_;
  const std::function<void(Ticks now)> over_;
  const CheckpointFolder folder_;
  SaveSchedule schedule_;
  std::optional<Current> current_;  // until all shards have answered
  // The last that check() has given up, and whose answer may still come. Until then it is not saved once more: an
  // answer names a version, not which of two files of it is meant.
  std::optional<Version> given_up_;
  std::vector<ShardId> owing_;
  Ticks begun_at_;
  std::int64_t written_ = 0;
  std::int64_t failed_ = 0;
  std::uint64_t failed_in_a_row_ = 0;
  std::optional<CheckpointId> newest_;
  std::optional<CheckpointId> counted_;
  std::optional<CheckpointId> oldest_kept_;  // here, as far as is known
  // keep_best: of this generation, by version; at most kMeasuredMax.
  static constexpr std::size_t kMeasuredMax = 8;
  struct Measured {
    bool asked = false;    // its evaluation is under way
    bool written = false;  // there is a checkpoint of it
    std::optional<double> accuracy;
  };
  std::map<Version, Measured> measured_;
  std::optional<CheckpointFolder::Best> best_;
};

}  // namespace paceline::server
