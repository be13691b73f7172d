#include "server/replicas/event_replay.h"

#include <optional>
#include <utility>

namespace paceline::server {
namespace {

constexpr std::nullopt_t kElsewhere = std::nullopt;  // with the replica that serves

}  // namespace

using As = wire::LogEntry::As;
using What = wire::LocalEvent::What;

Status EventReplay::in_another_state(Status why) {
  return std::move(why).with_context("this replica has come to another state");
}

Status EventReplay::apply(wire::Message event, Ticks at) {
  const ServerSetup& setup = server_.setup;
  const wire::LogEntry logged = *std::exchange(event.logged, std::nullopt);
  const Peer who = logged.node ? Peer::of(*logged.node) : Peer::of(logged.shard.value_or(setup.shard));
  const bool known = who.is_node() ? who.node().value < setup.config.cluster.nodes
                                   : who.shard().value < setup.config.cluster.shards;
  if (!known) return data_loss("an event of " + to_string(who) + ", which the run has not");
  server_.channels.follow(logged, event);
  switch (logged.as) {
    case As::kLocalEvent:
      if (const auto* local = std::get_if<wire::LocalEvent>(&event.body)) return local_event(who, *local, at);
      return Status::ok();
    case As::kAdmission:
    case As::kReturn: {
      const Status joined = join(event.body, logged.as == As::kReturn, at);
      return joined.is_ok() ? joined : in_another_state(joined);
    }
    case As::kToShard:
      if (!who.is_node() && !setup.is_authority()) {
        server_.link.set_welcomed();
        if (const auto* over = std::get_if<wire::RunOver>(&event.body)) {
          server_.run_over(*over);
          return Status::ok();
        }
      }
      server_.to_shard(who, std::move(event));
      return Status::ok();
    case As::kToAuthority:
      if (!server_.authority) return Status::ok();
      if (!who.is_node() && who.shard() == setup.shard) {
        PACELINE_RETURN_IF_ERROR(server_.comparison.compare(server_.role.on_primary_sent(event)));
      }
      // What was wrong was refused by the one that serves.
      (void)server_.authority->handle(who, event, at);
      return Status::ok();
    case As::kSent:
      return server_.comparison.compare(server_.role.on_primary_sent(event));
  }
  return Status::ok();
}

Status EventReplay::join(const wire::Body& body, bool goes_on, Ticks at) {
  Membership& members = server_.connections.members();
  OwnAuthority& authority = server_.authority;
  if (const auto* node = std::get_if<wire::Join>(&body)) {
    if (goes_on) {
      PACELINE_RETURN_IF_ERROR(members.go_on(*node, kElsewhere, at));
      server_.service.on_reconnect(node->node);
      if (authority) authority->node_reconnected(node->node);
      return Status::ok();
    }
    PACELINE_ASSIGN_OR_RETURN(const Layout layout, members.admit(*node, kElsewhere, at));
    PACELINE_RETURN_IF_ERROR(server_.service.open(layout).status());
    server_.service.on_welcome(node->node);
    if (authority) authority->node_joined(node->node, layout, at, node->incarnation, node->data_fingerprint);
    return Status::ok();
  }
  const auto* shard = std::get_if<wire::ShardJoin>(&body);
  const bool may_join = authority || server_.generation.waits();
  if (shard == nullptr || !server_.setup.is_authority() || !may_join) return data_loss("a join that is none");
  if (goes_on) {
    PACELINE_RETURN_IF_ERROR(server_.channels.with(shard->shard).on_ack(shard->acked));
    return members.go_on(*shard, kElsewhere, at);
  }
  PACELINE_RETURN_IF_ERROR(members.admit(*shard, kElsewhere, at));
  server_.channels.begin(shard->shard);
  if (authority) authority->shard_joined(shard->shard);
  return Status::ok();
}

Status EventReplay::local_event(Peer who, const wire::LocalEvent& event, Ticks at) {
  switch (event.what) {
    case What::kRemoved:
      server_.connections.remove(who);
      return Status::ok();
    case What::kForgotten:
      if (!who.is_node()) return data_loss("room made for " + to_string(who) + ", expected a node");
      server_.sessions.late_joins().forget(who.node());
      return Status::ok();
    case What::kAcked: {
      if (who.is_node()) return data_loss("acknowledged by " + to_string(who) + ", expected a server");
      server_.link.set_welcomed();
      const Status acked = server_.channels.on_ack(who.shard(), event.number);
      return acked.is_ok() ? acked : Status(acked).with_context("this replica has come to another state");
    }
    case What::kResumed: {
      const Status known = resumed(static_cast<std::uint64_t>(event.number), at);
      return known.is_ok() ? known : Status(known).with_context("the checkpoint to go on from");
    }
    default:
      return server_.authority ? to_authority(who, event, at) : Status::ok();
  }
}

Status EventReplay::to_authority(Peer who, const wire::LocalEvent& event, Ticks at) {
  Authority& authority = *server_.authority.operator->();
  switch (event.what) {
    case What::kTick:
      authority.tick(at);
      server_.note_progress(at);
      break;
    case What::kPause:
      authority.discount_pause({std::chrono::nanoseconds(event.number), at});
      break;
    case What::kLost:
      authority.lost(who, event.text, at);
      break;
    case What::kStop:
      authority.stop(event.text, at);
      break;
    case What::kSave:
      authority.save_checkpoint();
      break;
    case What::kFail:
      authority.fail({event.code, event.text}, at);
      break;
    case What::kDone: {
      const Status done = background_.done(event.number, {event.code, event.text}, at);
      return done.is_ok() ? done : Status(done).with_context("this replica has come to another state");
    }
    default:
      break;
  }
  return Status::ok();
}

// As the one that serves did (server/run/resuming.h), from the files that it gave.
Status EventReplay::resumed(std::uint64_t generation, Ticks at) {
  const ServerSetup& setup = server_.setup;
  RunGeneration& own = server_.generation;
  std::optional<ShardFile> file;
  if (taker_.has() && !own.resumed) file = taker_.take_file();
  if (!file) return data_loss("resumed without a checkpoint, or twice");
  own.number = generation;
  server_.checkpoints.set_generation(generation);
  if (setup.is_authority()) {
    const CheckpointFolder folder = setup.checkpoints();
    PACELINE_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(folder.manifest(*taker_.has()),
                                                                     *taker_.has(), setup.run_fingerprint));
    PACELINE_ASSIGN_OR_RETURN(ResumePoint point, resume_point_of(setup.config, manifest, generation));
    PACELINE_RETURN_IF_ERROR(server_.resuming.resume_authority(std::move(point), at));
    for (std::uint32_t k = 1; k < setup.config.cluster.shards; ++k) {
      server_.authority->shard_joined(ShardId(k));
    }
  }
  server_.connections.members().expect_layout(file->info.owner.layout_hash);
  own.from = taker_.has();
  own.resumed = true;
  return server_.service.resume_from(*std::move(file));
}

}  // namespace paceline::server
