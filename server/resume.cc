// Looking at what is there, and choosing.
#include "server/resume.h"

#include <algorithm>
#include <utility>

#include "common/checkpoint/engine_state.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/report/run_summary.h"
#include "common/wire/codec.h"

namespace paceline::server {
namespace {

std::string said(CheckpointId id, const Status& why) {
  return "the checkpoint of " + to_string(id) + ": " + why.message();
}

// A run that is over as it was meant to be has nothing left to do.
Status check_not_over(const RunConfig& config) {
  const auto summary = read_summary(config.run.out);
  if (!summary.is_ok() || summary->status != "ok") return Status::ok();
  return failed_precondition("the run in " + config.run.out +
                             " has ended well (summary.json says ok): there is nothing to resume");
}

Held held_without_whole(const std::vector<CheckpointFolder::Refused>& refused) {
  if (refused.empty()) return Held::kNothingToResume;
  const auto is_of_another = [](const CheckpointFolder::Refused& one) {
    return one.why.code() == StatusCode::kInvalidArgument;
  };
  return std::any_of(refused.begin(), refused.end(), is_of_another) ? Held::kOtherConfiguration
                                                                    : Held::kDamaged;
}

}  // namespace

Result<Held> held_by(const RunConfig& config, ShardId shard) {
  if (!check_not_over(config).is_ok()) return Held::kFinished;
  if (shard != kAuthority) {
    PACELINE_ASSIGN_OR_RETURN(const OwnFiles own, own_files(config, shard));
    return own.intact.empty() ? held_without_whole(own.refused) : Held::kCheckpoint;
  }
  PACELINE_ASSIGN_OR_RETURN(const CheckpointFolder::Complete found,
                            CheckpointFolder(config.run.out, fingerprint(config)).complete());
  return found.checkpoints.empty() ? held_without_whole(found.refused) : Held::kCheckpoint;
}

Result<OwnFiles> own_files(const RunConfig& config, ShardId shard) {
  PACELINE_ASSIGN_OR_RETURN(CheckpointFolder::Intact found,
                            CheckpointFolder(config.run.out, fingerprint(config)).intact(shard));
  OwnFiles own;
  own.refused = std::move(found.refused);
  for (const ShardFileInfo& file : found.files) {
    if (std::ssize(own.intact) == wire::kIntactMax) break;
    own.intact.push_back({{file.owner.generation, file.version}, file.digest});
  }
  return own;
}

Result<ResumeChoice> ResumeChoice::open(const RunConfig& config) {
  PACELINE_RETURN_IF_ERROR(check_not_over(config));
  const CheckpointFolder folder(config.run.out, fingerprint(config));
  PACELINE_ASSIGN_OR_RETURN(CheckpointFolder::Complete found, folder.complete());
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t last_generation, folder.last_generation());
  ResumeChoice choice(config, std::move(found), last_generation);
  if (choice.found_.checkpoints.empty()) return choice.nothing({});
  return choice;
}

ResumeChoice::ResumeChoice(const RunConfig& config, CheckpointFolder::Complete found,
                           std::uint64_t last_generation)
    : config_(config),
      found_(std::move(found)),
      last_generation_(last_generation),
      files_(config.cluster.shards) {}

void ResumeChoice::add(ShardId shard, std::vector<wire::IntactFile> intact) {
  files_[shard.value] = std::move(intact);
}

std::vector<ShardId> ResumeChoice::missing() const {
  std::vector<ShardId> shards;
  for (std::uint32_t k = 0; k < files_.size(); ++k) {
    if (!files_[k]) shards.emplace_back(k);
  }
  return shards;
}

Status ResumeChoice::check_files(const Manifest& manifest) const {
  if (manifest.shards.size() != files_.size()) {
    return invalid_argument("it is of " + std::to_string(manifest.shards.size()) + " shards, expected " +
                            std::to_string(files_.size()));
  }
  for (std::uint32_t k = 0; k < files_.size(); ++k) {
    const auto& files = *files_[k];
    const auto same = [&](const wire::IntactFile& file) { return file.checkpoint == manifest.id; };
    const auto found = std::find_if(files.begin(), files.end(), same);
    const std::string who = "shard " + std::to_string(k) + " ";
    if (found == files.end()) return not_found(who + "has no intact file of it (its log may say why)");
    if (found->digest != manifest.shards[k])
      return data_loss(who + "has another file than its manifest says");
  }
  return Status::ok();
}

Result<ResumePoint> ResumeChoice::read(const Manifest& manifest) const {
  PACELINE_RETURN_IF_ERROR(check_files(manifest));
  // One that was begun, but left no checkpoint, counts too: its nodes may still be there.
  return resume_point_of(config_, manifest, std::max(manifest.id.generation, last_generation_) + 1);
}

Result<ResumePoint> resume_point_of(const RunConfig& config, const Manifest& manifest,
                                    std::uint64_t generation) {
  ResumePoint point;
  PACELINE_ASSIGN_OR_RETURN(point.engine, checkpoint::engine_state_from_bytes(manifest.engine));
  PACELINE_RETURN_IF_ERROR(sync::validate(point.engine, engine_config(config)));
  if (point.engine.version != manifest.id.version || point.engine.revision != manifest.revision) {
    return data_loss("the core's state is of version " + to_string(point.engine.version) + ", expected " +
                     to_string(manifest.id.version));
  }
  PACELINE_ASSIGN_OR_RETURN(point.record, run_record_from_bytes(manifest.record, config.cluster.cluster()));
  point.manifest = manifest;
  point.generation = generation;
  return point;
}

Result<ResumePoint> ResumeChoice::choose() const {
  PACELINE_ASSERT(missing().empty(), "a choice before all shards have said what they have");
  std::vector<std::string> passed_over;
  for (const CheckpointFolder::Refused& refused : found_.refused) {
    passed_over.push_back(said(refused.id, refused.why));
  }
  for (const Manifest& manifest : found_.checkpoints) {
    Result<ResumePoint> point = read(manifest);
    if (point.is_ok()) {
      point->passed_over = std::move(passed_over);
      return point;
    }
    passed_over.push_back(said(manifest.id, point.status()));
  }
  return nothing(passed_over);
}

Status ResumeChoice::nothing(const std::vector<std::string>& refused) const {
  std::string text = "no checkpoint to resume from in " + config_.run.out + "/checkpoint";
  std::vector<std::string> reasons = refused;
  if (reasons.empty()) {
    for (const CheckpointFolder::Refused& one : found_.refused) reasons.push_back(said(one.id, one.why));
  }
  if (reasons.empty()) return failed_precondition(text + ": it holds none that is whole");
  for (const std::string& reason : reasons) text += "; " + reason;
  return failed_precondition(text);
}

}  // namespace paceline::server
