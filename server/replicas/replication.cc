#include "server/replicas/replication.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/hex.h"
#include "common/wire/reconnect_pause.h"

namespace paceline::server {

using What = wire::LocalEvent::What;

Replication::Replication(boost::asio::io_context& io, EventReplay::Server server, RunClock& clock,
                         EndOfRun& end, Background& background, std::function<void()> drain,
                         FollowingReplica::Handlers handlers)
    : io_(io),
      server_(std::move(server)),
      setup_(server_.setup),
      clock_(clock),
      end_(end),
      background_(background),
      role_(server_.role),
      drain_(std::move(drain)),
      handlers_(std::move(handlers)),
      replicated_(
          background, [this] { return clock_.now(); },
          [this](std::int64_t number, const Status& result, Ticks now) {
            role_.note(Peer::of(setup_.shard), {What::kDone, number, result.code(), result.message()}, now);
          },
          setup_.log),
      serving_(setup_, clock, end, role_, server_.connections, server_.authority, server_.link,
               server_.generation) {}

Status Replication::open() {
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<EtcdClient> etcd,
                            EtcdClient::make(io_, setup_.config.cluster.etcd));
  using Role = ServerOptions::Role;
  const bool is_to_follow = setup_.options.role == Role::kFollows;
  if (is_to_follow) replicated_.follow();
  const std::string prefix = "/" + setup_.config.cluster.etcd_prefix + "/" + hex(setup_.fingerprint) +
                             "/shard-" + to_string(setup_.shard);
  LeaderLease leader_lease(prefix, incarnation_,
                           is_to_follow ? LeaderLease::Start::kFollows
                           : setup_.options.replaces || setup_.options.role == Role::kGoesOn
                               ? LeaderLease::Start::kReplaces
                               : LeaderLease::Start::kBegins,
                           std::chrono::floor<std::chrono::seconds>(setup_.config.cluster.lease));
  election_ = std::make_unique<LeaderElection>(io_, std::move(etcd), std::move(leader_lease), [this] {
    on_lease();
    drain_();
  });
  role_ = ReplicaRole(is_to_follow ? ReplicaRole::Does::kFollows : ReplicaRole::Does::kServes, incarnation_,
                      *election_);
  following_ = std::make_unique<FollowingReplica>(io_, server_, clock_, end_, background_, replicated_,
                                                  *election_, incarnation_, handlers_);
  election_->start();
  return Status::ok();
}

void Replication::on_lease() {
  if (end_.ended()) return;
  const LeaderLease& lease = election_->leader_lease();
  if (lease.is_refused()) {
    return end_.end(failed_precondition(lease.describe(steady_now()) + "; --force begins anew"));
  }
  role_.follows() ? following_->on_lease(lease) : serving_.on_lease(lease);
}

bool Replication::on_message(const wire::PeerId& from, const Result<wire::Message>& message) {
  if (!role_.follows()) return serving_.on_message(from, message);
  wire::RouterSocket& router = server_.connections.router();
  if (!router.count_rejected(from)) {
    (void)router.send(
        from, {wire::Error{StatusCode::kUnavailable, "this replica of " + setup_.name() + " follows another",
                           /*fatal=*/false},
               {}});
  }
  return true;
}

void Replication::end_turn() {
  if (end_.ended()) return;
  serving_.send_turn();
  for (auto& [to, message] : role_.release()) {
    if (end_.ended()) return;
    to.connection() ? server_.connections.send_released_output(*to.connection(), std::move(message))
                    : server_.link.send_released_output(std::move(message));
  }
}

void Replication::take_over() {
  serving_.begin();
  if (setup_.is_authority()) replicated_.take_over();
}

void Replication::answer_for_files() {
  OwnAuthority& authority = server_.authority;
  if (role_.follows() || end_.ended() || !authority) return;
  const Status missing = authority->take_missing();
  if (missing.is_ok()) return;
  const Ticks now = clock_.now();
  role_.note(Peer::of(setup_.shard), {What::kFail, 0, missing.code(), missing.message()}, now);
  authority->fail_for_missing(missing, now);
}

bool Replication::is_done() const {
  const bool may_act = !role_.served() || (!role_.log().holds() && !awaits_return());
  return may_act && !replicated_.is_behind();
}

// Whether somebody who was here before this replica began to serve has not come to it yet, and may.
bool Replication::awaits_return() const {
  if (!role_.took_over_at()) return false;
  const auto served = clock_.now() - *role_.took_over_at();
  if (served > wire::kLeasesToTakeOver * setup_.config.cluster.lease) return false;
  const Membership& members = server_.connections.members();
  const std::vector<Peer> present = members.present();
  return std::any_of(present.begin(), present.end(), [&](Peer peer) {
    if (!members.is_elsewhere(peer)) return false;
    return peer.is_node() || server_.channels.lacks(peer.shard());
  });
}

std::vector<Wait> Replication::waits(Ticks now) const {
  return role_.follows() ? std::vector<Wait>{following_->wait()} : serving_.waits(now);
}

RestartRequest Replication::restart_request() const {
  return {.serves = !role_.follows(),
          .expects_follower = serving_.expects_follower(),
          .rejoins = end_.rejoins(),
          .has_followed = end_.rejoins() && election_->leader_lease().was_complete()};
}

void Replication::end(std::function<void()> gone) {
  const bool all_acked = !role_.log().holds() && server_.channels.authority().unacked().empty();
  const bool authority_over = server_.authority && server_.authority->over();
  const bool is_over = (authority_over || end_.result_of_run()) && all_acked;
  const bool reconfigures = end_.reconfigures();
  if (role_.follower() && (is_over || reconfigures)) {
    const Status& result = end_.result();
    (void)server_.connections.router().send(
        role_.follower()->connection,
        {wire::RunOver{result.code(), result.message(), reconfigures, reconfigures}, {}});
  }
  following_->close();
  server_.connections.router().close();
  using Resign = LeaderLease::Resign;
  election_->resign(reconfigures ? Resign::kReconfigures
                    : is_over    ? Resign::kForGood
                                 : Resign::kForNow,
                    // What its disk still takes is awaited in any case, and said where it fails.
                    [this, gone = std::move(gone)] { replicated_.when_caught_up(gone); });
}

}  // namespace paceline::server
