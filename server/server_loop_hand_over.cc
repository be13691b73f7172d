// A replica that comes back into the run (server/authority/hand_over.h), at the one that serves, which has
// the run handed over and gives it the checkpoint, and at the one that comes, which is given it.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "server/checkpoint/folder.h"
#include "server/checkpoint/shard_file.h"
#include "server/server_loop.h"
#include "server/store/shard_settings.h"

namespace paceline::server {
namespace {

// How long a replica may take to come to one that goes on after a hand-over, and to say more while it is
// given the checkpoint.
constexpr int kLeasesToCome = 2;

}  // namespace

// ---- at the one that serves

// After a hand-over its follower is to be there soon, or the run goes on without it, and well before nodes
// have waited for too long.
void ServerLoop::look_for_follower() {
  if (options_.role != ServerOptions::Role::kGoesOn || !role_.waits_for_follower() || !acts()) return;
  if (!resumed_) return;  // until it has its checkpoint nobody can be given it
  const Ticks now = ticks();
  const Ticks heard = role_.follower() ? role_.follower()->seen : std::max(started_at_, replica_->pulled);
  const bool comes = options_.expects_follower && now - heard <= kLeasesToCome * config_.cluster.lease &&
                     now - started_at_ <= config_.cluster.reconnect_timeout / 2;
  if (comes) return;
  if (options_.expects_follower) {
    log_.warn(
        "shard " + to_string(shard_) +
        "'s other replica has not come; this one goes on alone, and what it acknowledges is in one place");
    replica_->asked_for_hand_over = now + kLeasesBetween * config_.cluster.lease;
  }
  lose_follower("it is not complete in time");
  replica_->pulls.clear();
  role_.end_waiting();
}

// It goes on from a checkpoint that the other one is to have first.
void ServerLoop::give_checkpoint(const wire::PeerId& to) {
  wire::Body answer =
      wire::Error{StatusCode::kUnavailable, "shard " + to_string(shard_) + " has not read its checkpoint yet",
                  /*fatal=*/false};
  if (resumed_) {
    const CheckpointFolder folder(config_.run.out, run_fingerprint_);
    std::error_code error;
    const auto bytes_of = [&](const std::filesystem::path& file) {
      const std::uintmax_t bytes = std::filesystem::file_size(file, error);
      return error ? 0 : static_cast<std::int64_t>(bytes);
    };
    answer = wire::ReplicaResumes{*resume_point_, bytes_of(folder.shard_file(*resume_point_, shard_)),
                                  is_authority() ? bytes_of(folder.manifest(*resume_point_)) : 0};
    if (std::exchange(replica_->pulls, to) == to) {
      replica_->pulled = ticks();  // it lives, and is reading what it was given
    } else {
      replica_->given.reset();
    }
  }
  const Status said = router_->send(to, {std::move(answer), {}});
  if (!said.is_ok()) log_.debug(said.message());  // it asks again
}

void ServerLoop::on_pull(const wire::FilePull& pull) {
  const CheckpointFolder folder(config_.run.out, run_fingerprint_);
  const bool manifest = pull.file == wire::CheckpointFile::kManifest;
  const std::filesystem::path file =
      manifest ? folder.manifest(*resume_point_) : folder.shard_file(*resume_point_, shard_);
  // Each piece once, in order, and no more than are read.
  const std::pair next(manifest, pull.offset);
  const bool unread = router_->waiting(replica_->pulls) > 2 * CheckpointPull::kUnderWay;
  if (unread || (replica_->given && next <= *replica_->given)) return;
  replica_->given = next;
  replica_->pulled = ticks();
  Result<wire::Payload> piece = piece_of(file, pull);
  if (!piece.is_ok()) return log_.warn("a replica is not given its checkpoint: " + piece.status().message());
  const Status said =
      router_->send(replica_->pulls, {wire::FilePiece{pull.file, pull.offset}, *std::move(piece)});
  if (!said.is_ok()) log_.debug(said.message());
}

// It was not there from the start, or was lost since. One that has not been missed yet is to ask again, too.
void ServerLoop::ask_hand_over(const wire::PeerId& from) {
  const Ticks now = ticks();
  Status status = role_.follower() ? unavailable("another one follows") : can_hand_over(config_);
  const bool asked =
      replica_->asked_for_hand_over && now - *replica_->asked_for_hand_over <= config_.cluster.lease;
  if (!replica_->refused.is_ok()) status = replica_->refused;
  if (status.is_ok() && !asked && acts()) {
    replica_->asked_for_hand_over = now;
    const std::string why = "a replica of shard " + to_string(shard_) + " has come back";
    if (authority_) {
      status = authority_->hand_over(why, now);
    } else {
      to_authority({wire::HandOver{why}, {}});
    }
  }
  const bool never = status.code() == StatusCode::kFailedPrecondition;
  if (never) return refuse_join(from, status);
  replica_->is_asked = true;
  if (status.is_ok()) status = unavailable("the run is brought to rest first");
  const Status said =
      router_->send(from, {wire::Error{status.code(), status.message(), /*fatal=*/false}, {}});
  if (!said.is_ok()) log_.debug(said.message());
}

// ---- at the one that comes

// It goes on from a checkpoint: of its own files, if this one has any, none need be the same.
void ServerLoop::on_resumes(const wire::ReplicaResumes& resumes) {
  const bool comes =
      replica_->reads == resumes.from || (replica_->pull && replica_->pull->id() == resumes.from);
  if (role_.is_welcomed() || comes) return;
  replica_->reads.reset();
  log_.info("shard " + to_string(shard_) + " is given the checkpoint of " + to_string(resumes.from));
  const CheckpointFolder folder(config_.run.out, run_fingerprint_);
  if (const Status made = folder.make(resumes.from); !made.is_ok()) return end(made);
  using File = wire::CheckpointFile;
  std::vector<CheckpointPull::File> files;
  files.push_back({File::kShard, folder.shard_file(resumes.from, shard_), resumes.shard_bytes});
  if (is_authority())
    files.push_back({File::kManifest, folder.manifest(resumes.from), resumes.manifest_bytes});
  for (const CheckpointPull::File& file : files) {
    if (file.bytes == 0) return end(data_loss("the checkpoint to go on from is given without its files"));
  }
  replica_->pull.emplace(resumes.from, std::move(files));
  pull_more();
}

void ServerLoop::pull_more() {
  while (const std::optional<wire::FilePull> pull = replica_->pull->next()) {
    const Status said = replica_->serving->send({*pull, {}});
    if (!said.is_ok()) return log_.debug(said.message());  // it is gone; another one gives it from the start
  }
  if (replica_->pull->complete()) read_given();
}

// Before it follows: who follows says all the time that it lives.
void ServerLoop::read_given() {
  const CheckpointId id = replica_->pull->id();
  replica_->pull.reset();
  replica_->reads = id;
  const std::filesystem::path path = CheckpointFolder(config_.run.out, run_fingerprint_).shard_file(id, shard_);
  const auto file = std::make_shared<std::optional<ShardFile>>();
  background_.run(
      [file, path, wanted = ShardFileWanted{id, run_fingerprint_, shard_, {}, {}, {}},
       block_floats = shard_settings(config_).block_floats] {
        PACELINE_ASSIGN_OR_RETURN(*file, read_shard_file(path, wanted, block_floats));
        return Status::ok();
      },
      [this, file, id](const Status& read, Ticks) {
        if (ended_ || replica_->reads != id) return;
        replica_->reads.reset();
        if (!read.is_ok()) return end(Status(read).with_context("the checkpoint to go on from"));
        replica_->has = id;
        replica_->file = std::move(*file);
        if (const Status asked = ask_to_follow(); !asked.is_ok()) log_.debug(asked.message());
      });
}

// As the one that serves did (server_loop_resume.cc), from the files that it gave.
Status ServerLoop::apply_resumed(std::uint64_t generation, Ticks at) {
  if (!replica_->has || !replica_->file || resumed_)
    return data_loss("resumed without a checkpoint, or twice");
  generation_ = generation;
  shard_checkpoints_.set_generation(generation);
  const CheckpointFolder folder(config_.run.out, run_fingerprint_);
  if (is_authority()) {
    PACELINE_ASSIGN_OR_RETURN(const Manifest manifest,
                              read_manifest(folder.manifest(*replica_->has), *replica_->has, run_fingerprint_));
    PACELINE_ASSIGN_OR_RETURN(ResumePoint point, resume_point_of(config_, manifest, generation));
    PACELINE_RETURN_IF_ERROR(resume_authority(std::move(point), at));
    for (std::uint32_t k = 1; k < config_.cluster.shards; ++k) authority_->shard_joined(ShardId(k));
  }
  ShardFile file = *std::exchange(replica_->file, std::nullopt);
  membership_.expect_layout(file.info.owner.layout_hash);
  resume_point_ = replica_->has;
  resumed_ = true;
  return service_.resume_from(std::move(file));
}

}  // namespace paceline::server
