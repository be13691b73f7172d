// What a run is resumed from. Every server looks at its own files before it opens a socket; the authority,
// which reads the manifests, chooses once all shards have said what they have.
//
//   manifests, newest first      shard 0 has    shard 1 has        chosen
//   v130 of generation 1         v130           v118, v106         no: shard 1 has no such file
//   v118 of generation 1         v118           v118               yes
//
// A checkpoint is passed over where a shard's file is missing, broken or another one than its manifest says,
// and where what the manifest holds cannot be this configuration's. Nothing is removed.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/engine_state.h"
#include "common/wire/messages.h"
#include "server/authority/run_record_state.h"
#include "server/checkpoint/folder.h"

namespace paceline::server {

// This server's own files that are intact, every byte read, the newest first; and the others.
// Errors: kUnavailable the folder cannot be read.
struct OwnFiles {
  std::vector<wire::IntactFile> intact;
  std::vector<CheckpointFolder::Refused> refused;
};
Result<OwnFiles> own_files(const RunConfig& config, ShardId shard);

// Of a file or a checkpoint that is refused since it is of another configuration: the keys, with both values, as far as
// its manifest is there to say them; else empty. Where it is, the authority says it for all (ResumeChoice).
std::string keys_that_differ(const RunConfig& config, const CheckpointFolder::Refused& refused);

// A checkpoint that all shards have, read.
struct ResumePoint {
  Manifest manifest;
  sync::EngineState engine;
  RunRecordState record;
  std::uint64_t generation = 2;          // of the run that goes on from it
  std::vector<std::string> passed_over;  // newer ones, and why: a line for each
};

// What `manifest` says, as the run of `generation` goes on from it. Errors: kDataLoss, kInvalidArgument: it
// cannot be this configuration's.
Result<ResumePoint> resume_point_of(const RunConfig& config, const Manifest& manifest,
                                    std::uint64_t generation);

// What the run directory holds of a run, as far as `shard` can see: for --resume-or-start, and for the status
// with which a resume is refused.
enum class Resumable {
  kNothingToResume,     // no run, or one that has left neither a checkpoint nor a model
  kModelAlone,          // one that came to a model, and has left no checkpoint
  kDamaged,             // checkpoints, none of them whole
  kOtherConfiguration,  // whole ones, of runs with another configuration
  kFinished,            // a run that has ended well, and has nothing left to do or nothing to go on from
  kCheckpoint           // something to go on from
};
// Errors: kUnavailable the folder cannot be read.
Result<Resumable> find_resumable(const RunConfig& config, ShardId shard);

class ResumeChoice {
 public:
  // At the authority. Errors: kFailedPrecondition there is no run, one that ended well and has nothing left
  // to do, or no checkpoint at all: where was looked, and why each was refused (of another configuration's
  // the keys that differ); kUnavailable the folder cannot be read.
  static Result<ResumeChoice> open(const RunConfig& config);

  // What a shard has, the authority's own among them.
  void add(ShardId shard, std::vector<wire::IntactFile> intact);
  // Those who have not said it.
  std::vector<ShardId> missing() const;
  // Once nobody is missing. Errors: kFailedPrecondition none is whole on all shards, and why of each.
  Result<ResumePoint> choose() const;

 private:
  ResumeChoice(const RunConfig& config, CheckpointFolder::Complete found, std::uint64_t last_generation);
  Status check_files(const Manifest& manifest) const;
  Result<ResumePoint> read(const Manifest& manifest) const;
  struct PassedOver {
    CheckpointId id;
    std::string why;
  };
  std::string why_refused(const CheckpointFolder::Refused& refused) const;
  Status nothing(const std::vector<PassedOver>& refused) const;

  RunConfig config_;
  CheckpointFolder::Complete found_;
  std::uint64_t last_generation_;  // that has begun
  bool ended_well_ = false;
  std::vector<std::optional<std::vector<wire::IntactFile>>> files_;  // by shard
};

}  // namespace paceline::server
