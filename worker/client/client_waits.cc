#include "worker/client/client_waits.h"

#include <string>
#include <utility>

namespace paceline {

ClientWaits::ClientWaits(NodeId node, const ClusterSection& cluster, Log log, Pulls& pulls)
    : heartbeat_(cluster.heartbeat),
      lease_(cluster.lease),
      log_(std::move(log)),
      pulls_(pulls),
      grants_(node, cluster.threads_per_node, cluster.lease) {}

void ClientWaits::forgive_pause(Ticks now, std::vector<ServerLink>& links) {
  const auto pause = now - beat_due_;
  beat_due_ = now + heartbeat_;
  if (pause <= kPauseAtLeast) return;
  for (ServerLink& link : links) link.heard = link.heard + pause;
  grants_.forgive(pause);
  pulls_.forgive(pause);
  stalls_.forgive(pause);
  log_.debug("this process stood still for " + std::to_string(to_seconds(pause)) + " s");
}

Status ClientWaits::check(Ticks now, const std::vector<ServerLink>& links) {
  if (Status due = grants_.check(now); !due.is_ok()) {
    return std::move(due).with_context(links[kAuthority.value].name() + " lives, but");
  }
  return pulls_.check(now, kPullLeases * lease_);
}

void ClientWaits::tell(Ticks now, const std::vector<ServerLink>& links) {
  if (now < stalls_due_) return;
  stalls_due_ = now + std::chrono::seconds(1);
  for (const std::string& line : stalls_.look(waits(links), now)) log_.info(line);
}

std::vector<Wait> ClientWaits::waits(const std::vector<ServerLink>& links) const {
  std::string silent;
  for (const ServerLink& link : links) {
    if (!link.welcomed()) silent += (silent.empty() ? "" : ", ") + link.name();
  }
  if (!silent.empty())
    return {{"the wait for welcomes", "the join of this node is not answered by " + silent}};
  const std::string authority = links[kAuthority.value].name();
  if (only_authority_) {
    return {
        {"the wait for the end of the run", "this node is done; " + authority + " has not ended the run"}};
  }
  std::vector<Wait> waits = grants_.waits(authority);
  for (Wait& wait : pulls_.waits(grants_.usual())) waits.push_back(std::move(wait));
  return waits;
}

}  // namespace paceline
