// A connection that broke while its server lives: how the node goes on over another one.
//
//   it broke      ZeroMQ tells so, or the server says that it does not know the connection. What came over it
//                 has been handled; nothing that the server lent over it is read any more (Pulls::part_with)
//   another one   over it the Join with the same incarnation: the first at once, and where that one breaks,
//                 too, the next a while later
//   Welcome       what may not have been heard is said again (unacked_messages.h), what has not come is asked for
//                 again (Pulls::unanswered); what the authority may have said it says again by itself
//   refused, or silent for a lease   these servers are lost, as they would have been before
//
// Not ZeroMQ's own new connection: what was queued would leave over it before the Join, as a stranger's.
// Before all servers have welcomed the node nothing has been said yet: then it just joins again.
#include <cstdio>
#include <memory>

#include "common/wire/reconnect_pause.h"
#include "worker/client/server_connections.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;

// A thread is copying what the server has lent: that is over in a moment.
constexpr milliseconds kCopiedWithin{1};
constexpr std::int64_t kReconnectsLogged = 100;

}  // namespace

void ServerConnections::broke(ServerLink& link, std::int64_t connection, const std::string& how) {
  const bool over = shut_ || client_.state.left() || !client_.state.closed().is_ok();
  if (over && link.shard == kAuthority && connection == link.connection) client_.state.expect_no_end();
  if (over || connection != link.connection || link.socket == nullptr || link.reconnects_at) return;
  if (!link.broken) {
    link.broken = {client_.options.clock()};
    const bool may_have_ended = !waits_.needs(link.shard);  // as it is to, after this node's report
    if (reconnects_ < kReconnectsLogged && !may_have_ended) {
      log_.info("the connection to " + link.name() + " is of no further use: " + how +
                "; joining again over another one");
    }
  }
  if (!joining_.over() && link.welcomed()) {
    link.generation = 0;
    client_.state.stands(link.shard, {0, "its connection broke"});
  }
  link.broken->connected = false;
  reconnect_in(link, wire::reconnect_pause(link.broken->attempts++));
}

// Where a server has replicas: whether one of them may answer yet. Who does not is asked at another endpoint
// next.
bool ServerConnections::tries_other_replica(ServerLink& link, Ticks now) {
  if (link.endpoints.size() == 1) return false;
  if (!link.broken) broke(link, link.connection, "it is silent");
  if (!link.broken) return true;  // nobody needs it any more
  if (now - link.broken->since > wire::kLeasesToTakeOver * cluster_.lease) return false;
  if (link.broken->connected && now - link.asked > wire::kAnswersWithin) {
    link.answers = false;
    broke(link, link.connection, "it does not answer");
  }
  return true;
}

void ServerConnections::reconnect_in(ServerLink& link, std::chrono::nanoseconds delay) {
  auto timer = std::make_shared<boost::asio::steady_timer>(
      client_.io, std::chrono::duration_cast<std::chrono::steady_clock::duration>(delay));
  timer->async_wait([this, &link, timer](const boost::system::error_code& error) {
    if (!error) reconnect(link);
  });
}

void ServerConnections::reconnect(ServerLink& link) {
  const bool over = shut_ || !client_.state.closed().is_ok();
  if (over || !link.broken || link.broken->connected || link.socket == nullptr) return;
  if (!client_.pulls.part_with(link.shard)) return reconnect_in(link, kCopiedWithin);
  if (auto lent = link.socket->lent()) link.broken->lent.push_back(std::move(lent));
  link.socket->close(wire::DealerSocket::Queued::kIsDropped);
  link.broken->connected = true;
  if (Status asked = connect(link); !asked.is_ok()) events_.failed(std::move(asked));
}

Status ServerConnections::back(ServerLink& link, const wire::Welcome& welcome) {
  if (welcome.generation != link.generation) {  // which it should have refused
    lose(link, unavailable(link.name() + " is of another generation now"));
    return Status::ok();
  }
  PACELINE_RETURN_IF_ERROR(confirm_sharing(link));
  const Ticks since = link.broken->since;
  link.broken.reset();  // with what was lent
  link.initialized = welcome.initialized;
  const std::int64_t gradients = client_.unacked.gradients();
  PACELINE_RETURN_IF_ERROR(client_.unacked.retransmit(
      link, cluster_.frame_bytes,
      [this](std::uint32_t thread, const auto& whole) { waits_.grants().pushed(thread, whole); }));
  const std::vector<wire::Pull> pulls = client_.pulls.unanswered(link.shard);
  for (const wire::Pull& pull : pulls) PACELINE_RETURN_IF_ERROR(link.socket->send({pull, {}}));
  if (++reconnects_ > kReconnectsLogged) return Status::ok();
  char text[128];
  std::snprintf(text, sizeof text, " after %.3f s: %lld gradient%s and %zu pull%s retransmitted",
                to_seconds(client_.options.clock() - since), static_cast<long long>(gradients),
                gradients == 1 ? "" : "s", pulls.size(), pulls.size() == 1 ? "" : "s");
  log_.info(link.name() + " has welcomed this node over another connection" + text +
            (reconnects_ == kReconnectsLogged ? "; further ones are not logged" : ""));
  return Status::ok();
}

}  // namespace paceline
