#include "server/sessions/losses.h"

#include <algorithm>

#include "common/wire/reconnect_pause.h"
#include "server/run/seconds_text.h"

namespace paceline::server {

void Losses::unsent(Peer peer, const Status& why, Ticks now) {
  unreachable_.add(peer, why, now, peer.is_node() ? time_to_reconnect(setup_.shard) : given_to_return());
}

// Nobody in a formation ends one that is alive (docs/ALLREDUCE.md), though the network may.
void Losses::ended_elsewhere(const wire::Body& report, Ticks now) {
  const auto* peers = std::get_if<wire::Peers>(&report);
  if (peers == nullptr || !peers->lost || peers->lost->value >= setup_.config.cluster.nodes) return;
  unreachable_.ended_elsewhere(Peer::of(*peers->lost), now);
}

std::vector<Unreachable::Entry> Losses::take_unreachable(Ticks now) {
  return unreachable_.take_lost(now,
                                [this](Peer peer, Ticks when) { return members_.seen_since(peer, when); });
}

std::vector<Membership::Silence> Losses::silent(Ticks now) const {
  std::vector<Membership::Silence> silent = members_.silent(now);
  std::erase_if(silent, [this](const Membership::Silence& one) {
    const bool returns = !one.peer.is_node() || members_.is_elsewhere(one.peer);
    return returns && one.silent <= given_to_return();
  });
  return silent;
}

std::string Losses::long_silence_of(Peer peer, Ticks now) const {
  const auto silent = members_.silent_for(peer, now);
  if (!silent || *silent <= setup_.config.cluster.lease / 2) return "";
  return "; silent for " + seconds_text(*silent);
}

// That it broke it notices at once, or where the network has not told it, with its next heartbeat; so who is
// killed is missed sooner than by its lease. On one machine nothing breaks a connection but the end of one of
// its processes, or this one.
std::chrono::nanoseconds Losses::time_to_reconnect(ShardId server) const {
  const std::chrono::nanoseconds lease = setup_.config.cluster.lease;
  const bool one_machine = setup_.config.cluster.endpoints[server.value].starts_with("ipc://");
  const int beats = one_machine ? 0 : kBeatsToComeBack;
  return std::min<std::chrono::nanoseconds>(lease,
                                            beats * setup_.config.cluster.heartbeat + kComesBackWithin);
}

std::chrono::nanoseconds Losses::given_to_return() const {
  if (setup_.config.cluster.replicas > 1) return wire::kLeasesToTakeOver * setup_.config.cluster.lease;
  return time_to_reconnect(setup_.shard);
}

}  // namespace paceline::server
