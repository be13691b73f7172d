#include "server/replicas/serving_replica.h"

#include <algorithm>
#include <utility>

#include "common/config/load.h"
#include "common/wire/reconnect_pause.h"
#include "server/run/seconds_text.h"

namespace paceline::server {
namespace {

// How long a replica may take to come to one that goes on after a reconfiguration, and to say more while it is
// given the checkpoint.
constexpr int kLeasesToCome = 2;

}  // namespace

ServingReplica::ServingReplica(const ServerSetup& setup, const RunClock& clock, EndOfRun& end,
                               ReplicaRole& role, PeerConnections& connections, OwnAuthority& authority,
                               AuthorityLink& link, const RunGeneration& generation)
    : setup_(setup),
      clock_(clock),
      end_(end),
      role_(role),
      connections_(connections),
      generation_(generation),
      giver_(setup, clock, connections, generation),
      requests_(setup, clock, role, connections, authority, link) {}

// ---- etcd

void ServingReplica::on_lease(const LeaderLease& lease) {
  if (role_.lease_answered()) setup_.log.info(setup_.name() + "'s follower has all there is");
  if (lease.is_primary() && role_.begins_to_serve()) {
    setup_.log.info(setup_.name() + " is served by this replica, term " + std::to_string(lease.term()));
  } else if (role_.served() && (lease.another_serves() || lease.is_left_out())) {
    // Where only its lease has ended, and nobody serves, it may yet serve again (check_lease()).
    deposed_ = true;
    end_.end(unavailable(setup_.name() +
                         " is not served by this replica any more: " + lease.describe(steady_now())));
  }
}

void ServingReplica::check_lease(const LeaderLease& lease) {
  if (!role_.served()) return;
  const bool acts = role_.acts();
  const Ticks now = steady_now();
  if (acts) could_act_ = now;
  if (now - could_act_ > wire::kLeasesToTakeOver * setup_.config.cluster.lease) {
    return end_.end(unavailable(setup_.name() + " has waited too long for etcd: " + lease.describe(now)));
  }
  if (std::exchange(acted_, acts) == acts) return;
  if (acts) return setup_.log.info("etcd has answered: this replica serves " + setup_.name());
  setup_.log.warn("nobody is told anything by " + setup_.name() +
                  " until etcd answers: " + lease.describe(steady_now()));
}

// ---- the follower

bool ServingReplica::on_message(const wire::PeerId& from, const Result<wire::Message>& message) {
  if (message.is_ok() && std::holds_alternative<wire::ReplicaJoin>(message->body)) {
    on_join(from, std::get<wire::ReplicaJoin>(message->body));
    return true;
  }
  if (message.is_ok() && giver_.is_to(from)) {
    if (const auto* pull = std::get_if<wire::FilePull>(&message->body)) {
      giver_.on_pull(*pull);
      return true;
    }
  }
  if (!role_.follower() || role_.follower()->connection != from) return false;
  on_follower(message);
  return true;
}

void ServingReplica::on_join(const wire::PeerId& from, const wire::ReplicaJoin& join) {
  const std::string who = "replica of shard " + to_string(join.shard);
  if (role_.follower() && role_.follower()->connection == from) return;  // it says so twice
  Status status = connections_.check_key(wire::may_be_server(connections_.router().key_name()), who);
  if (status.is_ok() && join.protocol_version != wire::kProtocolVersion) {
    status = invalid_argument(who + ": protocol version " + std::to_string(join.protocol_version) +
                              ", expected " + std::to_string(wire::kProtocolVersion));
  } else if (status.is_ok() && join.shard != setup_.shard) {
    status = invalid_argument(who + ": this is " + setup_.name());
  } else if (status.is_ok()) {
    status = check_same_configuration(who, join.config_fingerprint, join.settings, setup_.config);
  }
  if (status.is_ok() && !role_.log().may_be_followed()) return requests_.ask(from);
  if (!status.is_ok()) return connections_.refuse_join(from, status);
  connections_.router().remember(from);
  if (generation_.resumes && (!generation_.resumed || join.has != generation_.from)) {
    return giver_.offer(from);
  }
  giver_.stop();
  std::vector<wire::Message> history = role_.follower_comes(from, join.incarnation, clock_.now());
  setup_.log.info(setup_.name() + " has a follower");
  send_event({wire::ReplicaWelcome{generation_.number, generation_.incarnation, clock_.began_at().ns}, {}});
  for (wire::Message& event : history) send_event(std::move(event));
}

void ServingReplica::on_follower(const Result<wire::Message>& message) {
  const Ticks now = clock_.now();
  role_.follower_seen(now);
  if (!message.is_ok()) return lose_follower("it sent a malformed message: " + message.status().message());
  if (std::holds_alternative<wire::Heartbeat>(message->body)) return;
  const auto* held = std::get_if<wire::LogAck>(&message->body);
  if (held == nullptr) return lose_follower(std::string("it sent a ") + wire::name_of(message->body));
  const Status sound = role_.follower_holds(held->count, now);
  if (!sound.is_ok()) lose_follower(sound.message());
}

void ServingReplica::send_turn() {
  for (wire::Message& event : role_.end_turn()) send_event(std::move(event));
}

void ServingReplica::beat() { send_event({wire::Heartbeat{}, {}}); }

void ServingReplica::send_event(wire::Message event) {
  if (!role_.follower()) return;
  const Status sent = connections_.router().send(role_.follower()->connection, std::move(event));
  if (!sent.is_ok()) lose_follower(sent.message());
}

void ServingReplica::lose_follower(const std::string& why) {
  if (!role_.follower()) return;
  (void)connections_.router().disconnect(role_.follower()->connection);
  role_.lose_follower();
  setup_.log.warn(setup_.name() + " has lost its follower: " + why +
                  (role_.log().may_be_followed()
                       ? "; it waits for it to come back"
                       : "; it goes on alone, and what it acknowledges from here on is in one place"));
}

void ServingReplica::check_follower(Ticks now) {
  const std::string why = role_.why_lost(setup_.config.cluster.lease, now);
  if (!why.empty()) lose_follower(why);
  check_follower_comes();
}

// After a reconfiguration its follower is to be there soon, or the run goes on without it, and well before nodes
// have waited for too long.
void ServingReplica::check_follower_comes() {
  if (setup_.options.role != ServerOptions::Role::kGoesOn || !role_.waits_for_follower() || !role_.acts()) {
    return;
  }
  if (!generation_.resumed) return;  // until it has its checkpoint nobody can be given it
  const ClusterSection& cluster = setup_.config.cluster;
  const Ticks now = clock_.now();
  const Ticks began = clock_.began_at();
  const Ticks last_seen = role_.follower() ? role_.follower()->seen
                                           : std::max({began, giver_.last_pull(), generation_.resumed_at});
  const bool expected = setup_.options.expects_follower;
  const bool comes = expected && now - last_seen <= kLeasesToCome * cluster.lease &&
                     now - began <= cluster.reconnect_timeout / 2;
  if (comes) return;
  if (expected) {
    setup_.log.warn(
        setup_.name() +
        "'s other replica has not come; this one goes on alone, and what it acknowledges is in one place");
    requests_.not_before(now + kLeasesBetween * cluster.lease);
  }
  lose_follower("it is not complete in time");
  giver_.stop();
  role_.end_waiting();
}

std::vector<Wait> ServingReplica::waits(Ticks now) const {
  if (!role_.acts()) {
    return {{"the wait for etcd", role_.why_it_waits(setup_.name(), setup_.other_endpoint())}};
  }
  if (role_.waits_for_follower()) {
    return {{"the wait for the follower", role_.why_it_waits(setup_.name(), setup_.other_endpoint())}};
  }
  if (role_.log().lag() == 0 || !role_.follower()) return {};
  return {{"the wait for the follower to have event " + std::to_string(role_.log().held()),
           setup_.name() + " waits for its follower, last seen " +
               seconds_text(now - role_.follower()->seen) + " ago, to have " +
               std::to_string(role_.log().lag()) + " events"}};
}

}  // namespace paceline::server
