#include "server/run/resuming.h"

#include <algorithm>
#include <utility>

#include "server/run/run_directory.h"
#include "server/service/checkpoint_reading.h"

namespace paceline::server {

Resuming::Resuming(const ServerSetup& setup, const RunClock& clock, EndOfRun& end, ReplicaRole& role,
                   PeerConnections& connections, NodeSessions& sessions, ServerChannels& channels,
                   ShardService& service, ShardCheckpoints& checkpoints, OwnAuthority& authority,
                   Background& background, RunGeneration& generation, ShardStatus shard_status)
    : setup_(setup),
      clock_(clock),
      end_(end),
      role_(role),
      connections_(connections),
      sessions_(sessions),
      channels_(channels),
      service_(service),
      checkpoints_(checkpoints),
      authority_(authority),
      background_(background),
      generation_(generation),
      shard_status_(std::move(shard_status)) {}

Status Resuming::find_checkpoints() {
  PACELINE_ASSIGN_OR_RETURN(own_files_, own_files(setup_.config, setup_.shard));
  for (const CheckpointFolder::Refused& refused : own_files_.refused) {
    if (!keys_that_differ(setup_.config, refused).empty()) continue;  // which is said once, with the keys
    setup_.log.warn(setup_.name() + " cannot use its file of " + to_string(refused.id) + ": " +
                    refused.why.message());
  }
  setup_.log.info(setup_.name() + " resumes; it has " + std::to_string(own_files_.intact.size()) +
                  " intact files of checkpoints");
  if (!setup_.is_authority()) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(choice_, ResumeChoice::open(setup_.config));
  choice_->add(kAuthority, own_files_.intact);
  // Where there is nobody to ask, said before anybody connects.
  return choice_->missing().empty() ? choice_->choose().status() : Status::ok();
}

// ---- at the authority

void Resuming::on_shard(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  if (!choice_) return connections_.send_to(from, wire::Heartbeat{});  // the choice is made
  choice_->add(join.shard, join.intact);
  setup_.log.info("shard " + to_string(join.shard) + " has " + std::to_string(join.intact.size()) +
                  " intact files of checkpoints");
  choose(now);
}

void Resuming::on_early(Peer from, const wire::Message& message) {
  if (const auto* leave = std::get_if<wire::Leave>(&message.body)) {
    return fail(unavailable(to_string(from) + " has left: " + leave->fault));
  }
  if (const auto* asked = std::get_if<wire::StopRun>(&message.body)) {
    return fail(aborted(to_string(from) + ": " + asked->reason));
  }
  if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
    if (lost->node.value < setup_.config.cluster.nodes) connections_.remove(Peer::of(lost->node));
  }
}

void Resuming::choose(Ticks now) {
  if (!choice_->missing().empty()) return;
  Result<ResumePoint> point = choice_->choose();
  choice_.reset();
  if (!point.is_ok()) return fail(point.status());
  const Status begun = begin(std::move(point).value(), now);
  if (!begun.is_ok()) fail(begun);
}

// From here on this run is the one that counts: what it has passed over is no checkpoint any more.
Status Resuming::begin(ResumePoint point, Ticks now) {
  const CheckpointId from = point.manifest.id;
  for (const std::string& passed_over : point.passed_over) setup_.log.warn("passed over " + passed_over);
  setup_.log.info("the run goes on from the checkpoint of " + to_string(from) + ", as generation " +
                  std::to_string(point.generation));
  const std::uint64_t generation = point.generation;
  PACELINE_RETURN_IF_ERROR(resume_authority(std::move(point), now));
  for (std::uint32_t k = 1; k < setup_.config.cluster.shards; ++k) {
    const Peer shard = Peer::of(ShardId(k));
    if (!connections_.members().is_present(shard)) return unavailable(to_string(shard) + " has gone");
    connections_.send_to(shard, wire::ShardWelcome{generation, from, channels_.with(ShardId(k)).ack()});
    authority_->shard_joined(ShardId(k));
  }
  go_on_from(from, generation);
  if (!is_to_stop_.empty()) {
    role_.note(Peer::of(setup_.shard), {.what = wire::LocalEvent::What::kStop, .text = is_to_stop_}, now);
    authority_->stop(is_to_stop_, now);
  }
  return Status::ok();
}

// Before anybody is told of it.
Status Resuming::resume_authority(ResumePoint point, Ticks now) {
  const CheckpointId from = point.manifest.id;
  const CheckpointFolder folder = setup_.checkpoints();
  PACELINE_RETURN_IF_ERROR(folder.begin_generation(point.generation));
  PACELINE_RETURN_IF_ERROR(folder.pass_over_newer(from));
  const Status recorded = record_resumed(setup_.config);
  if (!recorded.is_ok()) setup_.log.warn(recorded.message());
  PACELINE_ASSIGN_OR_RETURN(RunRecord record,
                            RunRecord::resume(setup_.config,
                                              {std::move(point.record), from.version,
                                               point.manifest.seconds_trained, point.generation},
                                              setup_.log));
  connections_.members().expect_layout(point.manifest.layout_hash);
  if (point.manifest.data_fingerprint) connections_.members().expect_data(*point.manifest.data_fingerprint);
  authority_.resume(std::move(record),
                    {from, point.generation, point.manifest.decisions, point.manifest.layout_hash,
                     std::move(point.engine), point.manifest.data_fingerprint},
                    now);
  return Status::ok();
}

void Resuming::check(Ticks now) {
  if (now - clock_.began_at() <= setup_.config.cluster.start_timeout) return;
  std::string names;
  for (const ShardId shard : choice_->missing()) {
    names += (names.empty() ? "shard " : ", shard ") + to_string(shard);
  }
  fail(deadline_exceeded(names + " did not join within cluster.start_timeout: what a run is resumed "
                                 "from is chosen when all servers are there, started with --resume"));
}

// Nothing has been changed on disk that a later attempt, or its user, would miss.
void Resuming::fail(const Status& why) {
  if (end_.ended()) return;
  setup_.log.error("the run cannot be resumed: " + why.message());
  if (authority_) return authority_->fail(why, clock_.now());
  for (const Peer peer : connections_.members().present()) {
    connections_.send_to(peer, wire::Error{why.code(), why.message(), /*fatal=*/true});
  }
  end_.end(why);
}

// ---- at each server

void Resuming::go_on_from(CheckpointId id, std::uint64_t generation) {
  generation_.number = generation;
  generation_.from = id;
  role_.note(Peer::of(setup_.shard),
             {.what = wire::LocalEvent::What::kResumed, .number = static_cast<std::int64_t>(generation)},
             clock_.now());
  checkpoints_.set_generation(generation);
  read_checkpoint(setup_, background_, id,
                  [this](const Status& read, std::shared_ptr<std::optional<ShardFile>> file, Ticks now) {
                    on_file_read(read, std::move(file), now);
                  });
}

void Resuming::on_file_read(Status read, std::shared_ptr<std::optional<ShardFile>> file, Ticks now) {
  if (end_.ended()) return;
  if (read.is_ok()) {
    connections_.members().expect_layout((*file)->info.owner.layout_hash);
    setup_.log.info(setup_.name() + " goes on from version " + to_string((*file)->info.version));
    read = service_.resume_from(*std::exchange(*file, std::nullopt));
  }
  if (!read.is_ok()) return shard_status_(read);
  generation_.resumed = true;
  generation_.resumed_at = now;  // from here on it can be followed
  sessions_.welcome_waiting(now);
}

}  // namespace paceline::server
