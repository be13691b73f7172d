// Answers counted, manifests written, old checkpoints removed.
#include "server/authority/checkpoints.h"

#include <bit>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/config/load.h"
#include "server/run/seconds_text.h"

namespace paceline::server {
namespace {

std::string megabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string two_digits_of_seconds(std::chrono::nanoseconds d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", to_seconds(d));
  return text;
}

// A replica's disk may have had no room for what the other one's had (ReplicatedBackground): without all of
// its files it is no checkpoint there, and nothing is left of it.
Status write_whole(const CheckpointFolder& folder, const Manifest& manifest) {
  Status written = folder.check_sizes(manifest);
  if (written.is_ok()) written = write_manifest(folder.manifest(manifest.id), manifest);
  if (written.is_ok()) return written;
  if (const Status removed = folder.abandon(manifest.id); !removed.is_ok()) {
    written = Status(written.code(), written.message() + "; " + removed.message());
  }
  return std::move(written).with_context("the checkpoint of " + to_string(manifest.id));
}

}  // namespace

Checkpoints::Checkpoints(const RunConfig& config, std::uint64_t generation,
                         std::optional<CheckpointId> resumed, Outbox& outbox, Background& background,
                         const Log& log, std::function<void(Ticks now)> over)
    : shards_(config.cluster.shards),
      lease_(config.cluster.lease),
      keep_(static_cast<std::size_t>(config.checkpoint.keep)),
      keep_best_(config.checkpoint.keep_best > 0),
      generation_(generation),
      fingerprint_(fingerprint(config, AgreedBy::kRun)),
      settings_(settings(config)),
      outbox_(outbox),
      background_(background),
      log_(log),
      over_(std::move(over)),
      folder_(config.run.out, fingerprint_),
      schedule_(config),
      newest_(resumed) {
  if (resumed && keep_best_) best_ = folder_.best();
}

void Checkpoints::begin(Manifest manifest, Ticks now) {
  manifest.id.generation = generation_;
  manifest.fingerprint = fingerprint_;
  manifest.settings = settings_;
  manifest.shards.assign(shards_, FileDigest{});
  current_ = Current{std::move(manifest), std::vector<bool>(shards_, false), ""};
  begun_at_ = now;
}

bool Checkpoints::due_at_stop(Version version, Ticks now) {
  if (!is_owed(version)) return schedule_.reached_last(version, now);
  log_.warn("version " + to_string(version) + " is not saved once more: shard " + to_string(owing_.front()) +
            " still owes its file of it");
  return false;
}

Status Checkpoints::on(ShardId from, const wire::Saved& saved, Ticks now) {
  if (saved.shard != from) {
    return invalid_argument("checkpoint from shard " + to_string(from) + " in the name of shard " +
                            to_string(saved.shard));
  }
  if (saved.version == given_up_) std::erase(owing_, from);
  if (!current_ || current_->manifest.id.version != saved.version || current_->answered[from.value]) {
    log_.debug("shard " + to_string(from) + " has saved version " + to_string(saved.version) +
               ", which nobody waits for");
    return Status::ok();
  }
  current_->answered[from.value] = true;
  current_->manifest.shards[from.value] = saved.digest;
  if (!saved.fault.empty()) {
    current_->faults +=
        (current_->faults.empty() ? "shard " : "; shard ") + to_string(from) + ": " + saved.fault;
  }
  if (missing().empty()) finish(now);
  return Status::ok();
}

std::vector<ShardId> Checkpoints::missing() const {
  std::vector<ShardId> shards;
  for (std::uint32_t k = 0; current_ && k < shards_; ++k) {
    if (!current_->answered[k]) shards.emplace_back(k);
  }
  return shards;
}

void Checkpoints::finish(Ticks) {
  Current done = *std::exchange(current_, std::nullopt);
  const CheckpointId id = done.manifest.id;
  if (!done.faults.empty()) return on_failed(id, done.faults);
  std::uint64_t bytes = 0;
  for (const FileDigest& file : done.manifest.shards) bytes += file.bytes;
  const auto older = std::make_shared<Older>();
  background_.run(
      [folder = folder_, keep = keep_, spared = spared(), manifest = std::move(done.manifest), older] {
        PACELINE_RETURN_IF_ERROR(write_whole(folder, manifest));
        const auto pruned = folder.prune(keep, spared);
        *older = pruned.is_ok() ? Older{pruned->oldest_kept, pruned->status} : Older{{}, pruned.status()};
        return Status::ok();
      },
      [this, id, bytes](const Status& written, Ticks now) { on_written(id, written, bytes, now); },
      [this, id, older](const Status& here, const Status& counts) {
        if (here.is_ok() && counts.is_ok()) on_written_here(id, *older);
      });
}

void Checkpoints::on_written_here(CheckpointId id, const Older& older) {
  newest_ = id;
  oldest_kept_ = older.oldest_kept;
  if (!older.status.is_ok()) log_.warn("older checkpoints are not removed: " + older.status.message());
}

void Checkpoints::on_written(CheckpointId id, const Status& written, std::uint64_t bytes, Ticks now) {
  if (!written.is_ok()) return on_failed(id, written.message());
  ++written_;
  counted_ = id;
  failed_in_a_row_ = 0;
  schedule_.written();
  log_.info("checkpoint of " + to_string(id) + " is written: " + megabytes(bytes) + ", " +
            two_digits_of_seconds(now - begun_at_));
  // In any case: to the shards it also says that this one is complete.
  constexpr CheckpointId kOldest{1, Version(0)};
  for (std::uint32_t k = 1; k < shards_; ++k) {
    outbox_.send(Peer::of(ShardId(k)), {wire::ForgetSaved{oldest_kept_.value_or(kOldest), spared()}, {}});
  }
  if (keep_best_) {
    measured_[id.version].written = true;
    consider(id);
    forget_old_measures();
  }
  over_(now);
}

void Checkpoints::will_be_evaluated(Version version) {
  if (keep_best_) measured_[version].asked = true;
}

void Checkpoints::evaluated(Version version, std::optional<double> accuracy) {
  if (!keep_best_) return;
  Measured& measured = measured_[version];
  measured.asked = false;
  measured.accuracy = accuracy;
  if (measured.written) consider({generation_, version});
  forget_old_measures();
}

void Checkpoints::forget_old_measures() {
  while (measured_.size() > kMeasuredMax && !measured_.begin()->second.asked) {
    measured_.erase(measured_.begin());
  }
}

// The best, and who may become it.
std::vector<CheckpointId> Checkpoints::spared() const {
  std::vector<CheckpointId> ids;
  if (best_) ids.push_back(best_->id);
  for (const auto& [version, measured] : measured_) {
    if (measured.asked && measured.written) ids.push_back({generation_, version});
  }
  return ids;
}

void Checkpoints::consider(CheckpointId id) {
  const std::optional<double> accuracy = measured_[id.version].accuracy;
  if (!accuracy || (best_ && *accuracy <= best_->accuracy)) return;
  best_ = CheckpointFolder::Best{id, *accuracy};
  log_.info("the checkpoint of " + to_string(id) + " is the best so far: test accuracy " +
            std::to_string(*accuracy));
  background_.run([folder = folder_, best = *best_] { return folder.set_best(best); },
                  [this](const Status& written, Ticks) {
                    if (!written.is_ok()) log_.warn(written.message());
                  });
}

void Checkpoints::on_failed(CheckpointId id, const std::string& why) {
  ++failed_;
  ++failed_in_a_row_;
  // A disk that stays full must not fill with that.
  const bool is_warned = std::has_single_bit(failed_in_a_row_);
  log_.write(
      is_warned ? LogLevel::kWarn : LogLevel::kDebug,
      "no checkpoint of " + to_string(id) + ": " + why + "; " +
          (newest_ ? "the newest is that of " + to_string(*newest_) : "there is none yet") +
          (failed_in_a_row_ > 1 ? "; " + std::to_string(failed_in_a_row_) + " have failed in a row" : ""));
  background_.run([folder = folder_, id] { return folder.abandon(id); },
                  [this](const Status& removed, Ticks now) {
                    if (!removed.is_ok()) log_.warn(removed.message());
                    schedule_.failed();
                    over_(now);
                  });
}

void Checkpoints::check(Ticks now) {
  const auto allowed = kLeases * lease_;
  if (missing().empty() || now - begun_at_ <= allowed) return;
  const CheckpointId id = current_->manifest.id;
  given_up_ = id.version;
  owing_ = missing();
  std::string who;
  for (const ShardId shard : owing_) who += (who.empty() ? "shard " : ", ") + to_string(shard);
  current_.reset();
  on_failed(id, who + ": not written within " + whole_seconds_text(allowed));
}

}  // namespace paceline::server
