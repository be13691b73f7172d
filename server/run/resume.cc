// Looking at what is there, and choosing.
#include "server/run/resume.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/checkpoint/engine_state.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/instant.h"
#include "common/network/network.h"
#include "common/network/stages.h"
#include "common/report/counted.h"
#include "common/report/run_summary.h"
#include "common/wire/codec.h"

namespace paceline::server {
namespace {

std::string with_reason(const std::string& which, const std::string& why) {
  return "the checkpoint of " + which + ": " + why;
}

std::string two_digits(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", number);
  return text;
}

// A run that is over as it was meant to be has nothing left to do, unless it is to be longer now.
Status check_not_over(const RunConfig& config) {
  const auto summary = read_summary(config.run.out);
  if (!summary.is_ok() || summary->status != "ok") return Status::ok();
  const std::string what = "the run in " + config.run.out + " has ended well (summary.json says ok)";
  if (unfinished(*summary, config.train.total_iterations, config.train.share).empty()) {
    return failed_precondition(what + ", with all " + std::to_string(summary->iterations) +
                               " iterations: there is nothing to resume; a larger train.total_iterations "
                               "extends it");
  }
  if (config.run.max_seconds && summary->wall_seconds >= to_seconds(*config.run.max_seconds)) {
    return failed_precondition(what + ", after " + two_digits(summary->wall_seconds) +
                               " s of training: run.max_seconds, which is of all sessions together, leaves "
                               "it nothing to do; give a larger one, or null");
  }
  const auto& target = config.run.target_accuracy;
  if (target && summary->test_accuracy && *summary->test_accuracy >= *target) {
    return failed_precondition(what + ", with a test accuracy of " + two_digits(*summary->test_accuracy) +
                               ": it has reached run.target_accuracy; give a larger one, or null");
  }
  return Status::ok();
}

// A stage's chunks lie side by side in the parameters, so another cut has another layout. A network that cannot be
// built here is the nodes' to refuse.
Status check_same_chunks(const RunConfig& config, const Manifest& manifest) {
  if (config.pipeline.chunks_of_stage() == 1) return Status::ok();
  const auto network = build_network(config);
  if (!network.is_ok() || network->layout.hash() == manifest.layout_hash) return Status::ok();
  // All that a resume may change and that moves layers from chunk to chunk.
  std::string differ;
  std::istringstream all(differing_settings(settings(config), manifest.settings));
  for (std::string one; std::getline(all, one, ';');) {
    const std::size_t key = one.find("pipeline.");
    if (key != std::string::npos && key <= 1) differ += (differ.empty() ? ": " : "; ") + one.substr(key);
  }
  return failed_precondition(
      "with pipeline.schedule: interleaved a resume moves no parameters to another chunk" + differ);
}

// Of a run that ended with a model, which is not begun over unless that is said; nullopt: there is none.
std::optional<RunSummary> summary_of_model(const RunConfig& config) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(config.run.out) / "model.bin", error))
    return std::nullopt;
  const auto summary = read_summary(config.run.out);
  if (!summary.is_ok() || summary->iterations == 0) return std::nullopt;
  return *summary;
}

Resumable without_whole(const RunConfig& config, const std::vector<CheckpointFolder::Refused>& refused) {
  if (refused.empty()) {
    return summary_of_model(config) ? Resumable::kModelAlone : Resumable::kNothingToResume;
  }
  const auto is_of_another = [](const CheckpointFolder::Refused& one) {
    return one.why.code() == StatusCode::kInvalidArgument;
  };
  return std::any_of(refused.begin(), refused.end(), is_of_another) ? Resumable::kOtherConfiguration
                                                                    : Resumable::kDamaged;
}

}  // namespace

Result<Resumable> find_resumable(const RunConfig& config, ShardId shard) {
  if (!check_not_over(config).is_ok()) return Resumable::kFinished;
  if (shard != kAuthority) {
    PACELINE_ASSIGN_OR_RETURN(const OwnFiles own, own_files(config, shard));
    return own.intact.empty() ? without_whole(config, own.refused) : Resumable::kCheckpoint;
  }
  PACELINE_ASSIGN_OR_RETURN(const CheckpointFolder::Complete found,
                            CheckpointFolder(config.run.out, fingerprint(config, AgreedBy::kRun)).complete());
  if (!found.checkpoints.empty()) return Resumable::kCheckpoint;
  // Its results are not begun anew over.
  if (found.refused.empty() && ended_well(config.run.out)) return Resumable::kFinished;
  return without_whole(config, found.refused);
}

Result<OwnFiles> own_files(const RunConfig& config, ShardId shard) {
  const CheckpointFolder folder(config.run.out, fingerprint(config, AgreedBy::kRun));
  PACELINE_ASSIGN_OR_RETURN(CheckpointFolder::Intact found, folder.intact(shard));
  OwnFiles own;
  own.refused = std::move(found.refused);
  for (const ShardFileInfo& file : found.files) {
    if (std::ssize(own.intact) == wire::kIntactMax) break;
    own.intact.push_back({{file.owner.generation, file.version}, file.digest});
  }
  return own;
}

std::string keys_that_differ(const RunConfig& config, const CheckpointFolder::Refused& refused) {
  if (refused.why.code() != StatusCode::kInvalidArgument) return "";
  const CheckpointFolder folder(config.run.out, fingerprint(config, AgreedBy::kRun));
  const Result<Manifest> manifest = read_manifest(folder.manifest(refused.id), refused.id);
  if (!manifest.is_ok() || manifest->settings.empty()) return "";
  return differing_settings(settings(config), manifest->settings, AgreedBy::kRun);
}

Result<ResumeChoice> ResumeChoice::open(const RunConfig& config) {
  PACELINE_RETURN_IF_ERROR(check_not_over(config));
  const CheckpointFolder folder(config.run.out, fingerprint(config, AgreedBy::kRun));
  PACELINE_ASSIGN_OR_RETURN(CheckpointFolder::Complete found, folder.complete());
  PACELINE_ASSIGN_OR_RETURN(const std::uint64_t last_generation, folder.last_generation());
  ResumeChoice choice(config, std::move(found), last_generation);
  choice.ended_well_ = ended_well(config.run.out);
  if (!choice.found_.checkpoints.empty()) return choice;
  std::vector<PassedOver> refused;
  for (const CheckpointFolder::Refused& one : choice.found_.refused) {
    refused.push_back({one.id, choice.why_refused(one)});
  }
  return choice.nothing(refused);
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
  PACELINE_RETURN_IF_ERROR(check_same_chunks(config_, manifest));
  // One that was begun, but left no checkpoint, counts too: its nodes may still be there.
  return resume_point_of(config_, manifest, std::max(manifest.id.generation, last_generation_) + 1);
}

Result<ResumePoint> resume_point_of(const RunConfig& config, const Manifest& manifest,
                                    std::uint64_t generation) {
  ResumePoint point;
  PACELINE_ASSIGN_OR_RETURN(sync::EngineState saved, checkpoint::engine_state_from_bytes(manifest.engine));
  PACELINE_ASSIGN_OR_RETURN(point.engine,
                            sync::with_total_iterations(std::move(saved), engine_config(config)));
  PACELINE_RETURN_IF_ERROR(sync::validate(point.engine, engine_config(config)));
  if (point.engine.version != manifest.id.version || point.engine.revision != manifest.revision) {
    return data_loss("the core's state is of version " + to_string(point.engine.version) + ", expected " +
                     to_string(manifest.id.version));
  }
  PACELINE_ASSIGN_OR_RETURN(point.record, run_record_from_bytes(manifest.record, config.cluster.cluster()));
  point.manifest = manifest;
  // Of a loop's model it says where that is cut, which may be elsewhere now.
  if (cut_by_loop(config.pipeline.balance)) point.manifest.data_fingerprint.reset();
  point.generation = generation;
  return point;
}

Result<ResumePoint> ResumeChoice::choose() const {
  PACELINE_ASSERT(missing().empty(), "a choice before all shards have said what they have");
  std::vector<PassedOver> passed_over;
  for (const CheckpointFolder::Refused& refused : found_.refused) {
    passed_over.push_back({refused.id, why_refused(refused)});
  }
  for (const Manifest& manifest : found_.checkpoints) {
    Result<ResumePoint> point = read(manifest);
    if (!point.is_ok()) {
      passed_over.push_back({manifest.id, point.status().message()});
      continue;
    }
    if (ended_well_ && sync::nothing_is_left(point->engine, engine_config(config_))) {
      return failed_precondition("the run in " + config_.run.out +
                                 " has ended well: there is nothing to resume; a larger "
                                 "train.total_iterations extends it");
    }
    for (const PassedOver& one : passed_over) {
      point->passed_over.push_back(with_reason(to_string(one.id), one.why));
    }
    return point;
  }
  return nothing(passed_over);
}

// Of a checkpoint of another configuration the keys, not the fingerprints, tell what to do.
std::string ResumeChoice::why_refused(const CheckpointFolder::Refused& refused) const {
  const std::string differ = keys_that_differ(config_, refused);
  return differ.empty() ? refused.why.message() : "it is of another configuration: " + differ;
}

// What is wrong with several is said once.
Status ResumeChoice::nothing(const std::vector<PassedOver>& refused) const {
  std::string text = "no checkpoint to resume from in " + config_.run.out + "/checkpoint";
  if (refused.empty()) {
    text +=
        ": it holds none that is whole; a run writes them with checkpoint.every_clocks or checkpoint.every";
    if (const auto summary = summary_of_model(config_)) {
      text += "; the run there (" + summary->status + ", " + std::to_string(summary->iterations) +
              " iterations) left a model (model.bin) and nothing to go on from; --force (--existing replace) "
              "replaces it";
    }
    return failed_precondition(text);
  }
  for (std::size_t i = 0; i < refused.size();) {
    std::string which = to_string(refused[i].id);
    std::size_t next = i + 1;
    for (; next < refused.size() && refused[next].why == refused[i].why; ++next) {
      which += ", of " + to_string(refused[next].id);
    }
    text += "; " + with_reason(which, refused[i].why);
    i = next;
  }
  return failed_precondition(text);
}

}  // namespace paceline::server
