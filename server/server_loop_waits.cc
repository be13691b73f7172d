// What a server waits for, into its log: once a wait has become long (common/log/stall_log.h), and at once
// when somebody asks (SIGUSR1). What each part of it waits for the parts say themselves; the loop adds who
// was heard of when.
#include <boost/asio/post.hpp>
#include <utility>

#include "common/ticks.h"
#include "server/server_loop.h"

namespace paceline::server {
namespace {

// A wait that is worth a line lasts for seconds.
constexpr std::chrono::seconds kLookEvery{1};

}  // namespace

LastSeen ServerLoop::last_seen(Ticks now) const {
  return [this, now](Peer peer) -> std::optional<std::chrono::nanoseconds> {
    if (is_authority() || peer != Peer::of(kAuthority)) return membership_.silent_for(peer, now);
    return welcomed_ ? std::optional<std::chrono::nanoseconds>(now - authority_seen_) : std::nullopt;
  };
}

std::vector<Wait> ServerLoop::waits(Ticks now) const {
  if (follows()) {
    return {{"the wait for the replica that serves",
             "shard " + to_string(shard_) + "'s second replica follows the first, from which it has " +
                 std::to_string(role_.applied()) +
                 " events: " + replica_->election->leader_lease().describe(steady_now())}};
  }
  if (is_authority() && !authority_) {
    return {{"the wait for the shards to resume", "shard " + to_string(choice_->missing().front()) +
                                                      " has not joined: what the run is resumed from is not "
                                                      "known"}};
  }
  if (!authority_ && !welcomed_) {
    return {{"the wait for the authority", "shard " + to_string(shard_) + " waits for the authority (" +
                                               authority_endpoint() + ") to answer its join"}};
  }
  std::vector<Wait> found;
  if (authority_) found = authority_->waits(last_seen(now));
  if (waits_for_resume()) {
    found.push_back({"the wait for the checkpoint",
                     "shard " + to_string(shard_) + " waits for its file of the checkpoint to be read"});
    return found;
  }
  replica_waits(now, found);
  for (Wait& wait : service_.waits(last_seen(now), now)) found.push_back(std::move(wait));
  return found;
}

void ServerLoop::look_for_stalls(Ticks now) {
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  for (const std::string& line : stalls_.look(waits(now), now)) log_.info(line);
}

void ServerLoop::explain() {
  boost::asio::post(io_, [this] {
    if (ended_) return;
    const Ticks now = ticks();
    const std::vector<std::string> lines = stalls_.explain(waits(now), now);
    if (lines.empty()) log_.warn("asked what it waits for: for nothing");
    for (const std::string& line : lines) log_.warn("asked what it waits for: " + line);
  });
}

}  // namespace paceline::server
