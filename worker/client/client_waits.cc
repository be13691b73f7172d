#include "worker/client/client_waits.h"

#include <cstdio>
#include <string>
#include <utility>

namespace paceline {

ClientWaits::ClientWaits(NodeId node, const ClusterSection& cluster, bool rejoins, Log log, Pulls& pulls,
                         std::function<std::vector<Wait>()> own)
    : heartbeat_(cluster.heartbeat),
      lease_(cluster.lease),
      rejoins_(rejoins),
      log_(std::move(log)),
      pulls_(pulls),
      own_(std::move(own)),
      grants_(node, cluster.threads_per_node, cluster.lease) {}

void ClientWaits::discount_pause_of(Ticks now, std::vector<ServerLink>& links) {
  const Pause pause{now - beat_due_, now};
  beat_due_ = now + heartbeat_;
  if (pause.length <= kPauseAtLeast) return;
  for (ServerLink& link : links) link.last_received = pause.discounted(link.last_received);
  grants_.discount_pause(pause);
  pulls_.discount_pause(pause);
  stalls_.discount_pause(pause);
  log_.debug("this process stood still for " + std::to_string(to_seconds(pause.length)) + " s");
}

Status ClientWaits::check(Ticks now, const std::vector<ServerLink>& links) {
  if (Status due = grants_.check(now); !due.is_ok()) {
    return std::move(due).with_context(links[kAuthority.value].name() + " lives, but");
  }
  return pulls_.check(now, kPullLeases * lease_);
}

void ClientWaits::announce(Ticks now, const std::vector<ServerLink>& links) {
  if (now < stalls_due_) return;
  stalls_due_ = now + std::chrono::seconds(1);
  const std::vector<Wait> waiting = waits(now, links);
  const bool at_start = !waiting.empty() && waiting.front().at_start;
  const LogLevel level = at_start ? LogLevel::kWarn : LogLevel::kInfo;
  for (const std::string& line : stalls_.check(waiting, now)) log_.write(level, line);
}

// "; server shard 1 (tcp://10.0.0.1:5556) was last seen 4.2 s ago", of those whose heartbeats do not come.
std::string ClientWaits::silent(Ticks now, const std::vector<ServerLink>& links) const {
  std::string text;
  for (const ServerLink& link : links) {
    const auto since = now - link.last_received;
    if (!link.welcomed() || !needs(link.shard) || since <= 2 * heartbeat_) continue;
    char ago[48];
    std::snprintf(ago, sizeof ago, " was last seen %.1f s ago", to_seconds(since));
    text += "; " + link.name() + ago;
  }
  return text;
}

std::vector<Wait> ClientWaits::waits(Ticks now, const std::vector<ServerLink>& links) const {
  std::string unanswered;
  bool at_start = !rejoins_;
  for (const ServerLink& link : links) {
    at_start = at_start && !link.broken;
    if (!link.welcomed()) unanswered += (unanswered.empty() ? "" : ", ") + link.name();
  }
  if (!unanswered.empty()) {
    return {{"the wait for welcomes", "the join of this node is not answered by " + unanswered,
             std::chrono::nanoseconds(0), at_start}};
  }
  const std::string authority = links[kAuthority.value].name();
  if (only_authority_) {
    return {{"the wait for the end of the run",
             "this node is done; " + authority + " has not ended the run" + silent(now, links)}};
  }
  std::vector<Wait> waits = grants_.waits(authority);
  for (Wait& wait : pulls_.waits(grants_.usual())) waits.push_back(std::move(wait));
  for (Wait& wait : waits) {
    wait.text += silent(now, links);
    wait.at_start = wait.at_start && at_start;
  }
  if (!own_) return waits;
  for (Wait& wait : own_()) waits.push_back(std::move(wait));
  return waits;
}

}  // namespace paceline
