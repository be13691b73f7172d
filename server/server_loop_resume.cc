// The way of a resumed run to where it goes on.
//
//   before sockets   every server reads its own files; the authority reads the manifests
//   shard 1          ShardJoin{resumes, intact} -> the authority, when all have come, chooses
//                 <- ShardWelcome{generation, resume_from}
//   each server      reads its file of that checkpoint, in the background, and goes on from it
//   nodes            are let in at any time, and welcomed after that
#include <algorithm>
#include <utility>

#include "common/ticks.h"
#include "server/run_directory.h"
#include "server/server_loop.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

Status ServerLoop::look_for_checkpoints() {
  PACELINE_ASSIGN_OR_RETURN(own_files_, own_files(config_, shard_));
  for (const CheckpointFolder::Refused& refused : own_files_.refused) {
    log_.warn("shard " + to_string(shard_) + " cannot use its file of " + to_string(refused.id) + ": " +
              refused.why.message());
  }
  log_.info("shard " + to_string(shard_) + " resumes; it has " + std::to_string(own_files_.intact.size()) +
            " intact files of checkpoints");
  if (!is_authority()) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(choice_, ResumeChoice::open(config_));
  choice_->add(kAuthority, own_files_.intact);
  // Where there is nobody to ask, said before anybody connects.
  return choice_->missing().empty() ? choice_->choose().status() : Status::ok();
}

void ServerLoop::on_resuming_shard(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  if (!choice_) return send_to(from, wire::Heartbeat{});  // the choice is made
  choice_->add(join.shard, join.intact);
  log_.info("shard " + to_string(join.shard) + " has " + std::to_string(join.intact.size()) +
            " intact files of checkpoints");
  choose_checkpoint(now);
}

// It is not welcomed yet: there is no state that a push, a pull or initial parameters could be of, and
// perhaps no authority that a report could be for.
void ServerLoop::on_waiting_node(Peer from, const wire::Body& body) {
  if (std::holds_alternative<wire::Leave>(body)) {
    forget_waiting(from);
    return log_.info(to_string(from) + " has left before its welcome; it may come again");
  }
  refuse(*membership_.connection_of(from),
         failed_precondition(std::string(wire::name_of(body)) + " from " + to_string(from) + " to shard " +
                             to_string(shard_) + ", which has not read its checkpoint yet; expected it to " +
                             "wait for its welcome"),
         /*fatal=*/true);
}

// The process of a node that came last is it, as long as it is not welcomed: the one before was killed, or
// connects anew.
void ServerLoop::evict_previous(const wire::PeerId& from, const wire::Join& join) {
  const auto is_it = [&](const Waiting& one) { return one.join.node == join.node; };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  if (found == waiting_.end() || found->connection == from || !membership_.check(join).is_ok()) return;
  const Waiting before = *found;
  forget_waiting(Peer::of(join.node));
  if (before.join.incarnation == join.incarnation) return;
  log_.info("another process of node " + to_string(join.node) + " has joined, instead of the one before");
  send_to(before.connection, wire::Error{StatusCode::kFailedPrecondition,
                                         "another process of node " + to_string(join.node) + " has joined",
                                         /*fatal=*/true});
}

// Says whether it was one that waits.
bool ServerLoop::forget_waiting(Peer peer) {
  const auto is_it = [&](const Waiting& one) { return Peer::of(one.join.node) == peer; };
  if (std::erase_if(waiting_, is_it) == 0) return false;
  router_->unmap(membership_.last_connection_of(peer));
  membership_.forget(peer);
  reads_ours_is_open_[peer.number] = false;
  return true;
}

void ServerLoop::choose_checkpoint(Ticks now) {
  if (!choice_->missing().empty()) return;
  Result<ResumePoint> point = choice_->choose();
  choice_.reset();
  if (!point.is_ok()) return cannot_resume(point.status());
  const Status begun = begin_resumed(std::move(point).value(), now);
  if (!begun.is_ok()) cannot_resume(begun);
}

// From here on this run is the one that counts: what it has passed over is no checkpoint any more.
Status ServerLoop::begin_resumed(ResumePoint point, Ticks now) {
  const CheckpointId from = point.manifest.id;
  for (const std::string& passed_over : point.passed_over) log_.warn("passed over " + passed_over);
  log_.info("the run goes on from the checkpoint of " + to_string(from) + ", as generation " +
            std::to_string(point.generation));
  const std::uint64_t generation = point.generation;
  PACELINE_RETURN_IF_ERROR(resume_authority(std::move(point), now));
  for (std::uint32_t k = 1; k < config_.cluster.shards; ++k) {
    const wire::PeerId* connection = membership_.connection_of(Peer::of(ShardId(k)));
    if (connection == nullptr) return unavailable("shard " + std::to_string(k) + " has gone");
    send_to(*connection, wire::ShardWelcome{generation, from, channels_.with(ShardId(k)).tell()});
    authority_->shard_joined(ShardId(k));
  }
  go_on_from(from, generation);
  if (!is_to_stop_.empty()) {
    note(Peer::of(shard_), {.what = wire::LocalEvent::What::kStop, .text = is_to_stop_}, now);
    authority_->stop(is_to_stop_, now);
  }
  return Status::ok();
}

// Before anybody is told of it.
Status ServerLoop::resume_authority(ResumePoint point, Ticks now) {
  const CheckpointId from = point.manifest.id;
  const CheckpointFolder folder(config_.run.out, run_fingerprint_);
  PACELINE_RETURN_IF_ERROR(folder.begin_generation(point.generation));
  PACELINE_RETURN_IF_ERROR(folder.pass_over_newer(from));
  if (const Status recorded = record_resumed(config_); !recorded.is_ok()) log_.warn(recorded.message());
  PACELINE_ASSIGN_OR_RETURN(
      RunRecord record,
      RunRecord::resume(
          config_, {std::move(point.record), from.version, point.manifest.seconds_trained, point.generation},
          log_));
  membership_.expect_layout(point.manifest.layout_hash);
  if (point.manifest.data_fingerprint) membership_.expect_data(*point.manifest.data_fingerprint);
  Authority::Resumed resumed{from,
                             point.generation,
                             point.manifest.decisions,
                             point.manifest.layout_hash,
                             std::move(point.engine),
                             point.manifest.data_fingerprint};
  authority_.emplace(config_, std::move(record), authority_port_, authority_background(), log_, now,
                     std::move(resumed));
  return Status::ok();
}

void ServerLoop::go_on_from(CheckpointId id, std::uint64_t generation) {
  generation_ = generation;
  resume_point_ = id;
  note(Peer::of(shard_),
       {.what = wire::LocalEvent::What::kResumed, .number = static_cast<std::int64_t>(generation)}, ticks());
  shard_checkpoints_.set_generation(generation);
  const std::filesystem::path path =
      CheckpointFolder(config_.run.out, run_fingerprint_).shard_file(id, shard_);
  const auto file = std::make_shared<std::optional<ShardFile>>();
  background_.run(
      [file, path, wanted = ShardFileWanted{id, run_fingerprint_, shard_, {}, {}, {}},
       block_floats = shard_settings(config_).block_floats] {
        PACELINE_ASSIGN_OR_RETURN(*file, read_shard_file(path, wanted, block_floats));
        return Status::ok();
      },
      [this, file](const Status& read, Ticks now) { on_file_read(read, file, now); });
}

void ServerLoop::on_file_read(Status read, std::shared_ptr<std::optional<ShardFile>> file, Ticks now) {
  if (ended_) return;
  if (read.is_ok()) {
    membership_.expect_layout((*file)->info.owner.layout_hash);
    log_.info("shard " + to_string(shard_) + " goes on from version " + to_string((*file)->info.version));
    read = service_.resume_from(*std::exchange(*file, std::nullopt));
  }
  if (!read.is_ok()) return on_shard_status(read);
  resumed_ = true;
  if (replica_) replica_->pulled = now;  // from here on it can be followed
  for (const Waiting& one : std::exchange(waiting_, {})) welcome(one.join, one.layout, now);
}

// At the authority, before it has chosen.
void ServerLoop::check_resume(Ticks now) {
  if (now - started_at_ <= config_.cluster.start_timeout) return;
  std::string names;
  for (const ShardId shard : choice_->missing()) {
    names += (names.empty() ? "shard " : ", shard ") + to_string(shard);
  }
  cannot_resume(deadline_exceeded(names +
                                  " did not join within cluster.start_timeout: what a run is resumed "
                                  "from is chosen when all servers are there, started with --resume"));
}

// Nothing has been changed on disk that a later attempt, or its user, would miss.
void ServerLoop::cannot_resume(const Status& why) {
  if (ended_) return;
  log_.error("the run cannot be resumed: " + why.message());
  if (authority_) return authority_->fail(why, ticks());
  for (const Peer peer : membership_.present()) {
    send_to(*membership_.connection_of(peer), wire::Error{why.code(), why.message(), /*fatal=*/true});
  }
  end(why);
}

}  // namespace paceline::server
