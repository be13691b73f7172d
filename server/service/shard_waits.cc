#include "server/service/shard_waits.h"

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace paceline::server {
namespace {

// "the pull of node 1 waits for ", "pulls of node 1 and node 2 wait for "
std::string pulls_of(const std::set<Peer>& from) {
  std::vector<std::string> names;
  for (const Peer peer : from) names.push_back(to_string(peer));
  return from.size() == 1 ? "the pull of " + names.front() + " waits for "
                          : "pulls of " + enumerated(names) + " wait for ";
}

// Who still reads what was sent to it.
std::string readers(const ShardWaiting& it, const LastSeen& last_seen, Ticks now) {
  std::vector<std::string> names;
  for (const ReplyWindow::Reading& reading : it.replies.readings()) {
    std::string text = with_last_seen_after(Peer::of(reading.node), last_seen) + " has " +
                       std::to_string(reading.pieces) + (reading.pieces == 1 ? " piece" : " pieces") +
                       " to read";
    if (reading.takes_none_since) {
      char taken[64];
      std::snprintf(taken, sizeof taken, " and has taken none for %.1f s",
                    to_seconds(now - *reading.takes_none_since));
      text += taken;
    }
    names.push_back(std::move(text));
  }
  return names.empty() ? "what was sent to the authority, or to nodes that are lost" : enumerated(names);
}

void start_waits(const ShardWaiting& it, const LastSeen& last_seen, std::vector<Wait>& found) {
  if (it.id == kAuthority) return;  // who is missing there
  const std::string here = "shard " + to_string(it.id);
  if (it.shard == nullptr) {
    found.push_back({"the wait for a node to join", here + " waits for the first node to join"});
    return;
  }
  found.push_back({"the wait for the initial parameters",
                   here + " waits for its initial parameters: " + std::to_string(it.shard->initialized()) +
                       " of " + std::to_string(it.shard->range().size()) + " floats have come from " +
                       with_last_seen_after(Peer::of(NodeId(0)), last_seen)});
}

void pull_waits(const ShardWaiting& it, const LastSeen& last_seen, Ticks now, std::vector<Wait>& found) {
  const Snapshot& current = it.shard->now();
  std::map<Version, std::set<Peer>> not_reached;
  std::set<Peer> wait_for_replies;
  for (const PendingPull& held : it.pulls.held()) {
    const bool reached = !held.pull.exact && current.version >= held.pull.min_version;
    (reached ? wait_for_replies : not_reached[held.pull.min_version]).insert(held.from);
  }
  const Snapshot* const older = it.replies.state();
  if (!wait_for_replies.empty() && older != nullptr) {
    const std::string what =
        "revision " + to_string(older->revision) + " (version " + to_string(older->version) + ") to leave";
    found.push_back({"the wait for " + what,
                     pulls_of(wait_for_replies) + what + ": " + readers(it, last_seen, now),
                     it.durations.usual_of_replies()});
  }
  if (it.id == kAuthority) return;
  for (const auto& [version, from] : not_reached) {
    if (from.empty()) continue;
    const std::string what = "version " + to_string(version);
    found.push_back({"the wait for " + what,
                     pulls_of(from) + what + ": shard " + to_string(it.id) + " is at version " +
                         to_string(current.version) + ", and decision " +
                         std::to_string(it.shard->next_sequence()) + " has not come from the authority" +
                         bracketed_last_seen(Peer::of(kAuthority), last_seen),
                     it.durations.usual_of_version()});
  }
}

void decision_waits(const ShardWaiting& it, const LastSeen& last_seen, Ticks now, std::vector<Wait>& found) {
  if (it.postponed > 0) {
    const std::string decision = "decision " + std::to_string(it.shard->next_sequence());
    const std::size_t after = it.postponed - 1;
    const std::string who =
        decision + (after == 0 ? " waits" : " and " + std::to_string(after) + " after it wait");
    found.push_back({"the wait of " + decision + " for a released version to leave",
                     who + " for a released version to leave: " + readers(it, last_seen, now),
                     it.durations.usual_of_version()});
  }
  if (it.withheld.empty()) return;
  std::vector<std::string> gradients;
  for (const wire::GradientArrived& arrived : it.withheld) {
    gradients.push_back("worker " + to_string(arrived.worker) + " (clock " + to_string(arrived.clock) + ")");
  }
  const std::string decision = "decision " + std::to_string(it.shard->next_sequence());
  found.push_back({"the wait for " + decision + ", for room",
                   "gradients of " + enumerated(gradients) +
                       " are whole but not announced: as many as shard " + to_string(it.id) +
                       " holds of a worker wait for decision " + std::to_string(it.shard->next_sequence()) +
                       ", which has not come from the authority" +
                       bracketed_last_seen(Peer::of(kAuthority), last_seen),
                   it.durations.usual_of_version()});
}

}  // namespace

std::vector<Wait> waits_of(const ShardWaiting& it, const LastSeen& last_seen, Ticks now) {
  std::vector<Wait> found;
  if (it.shard == nullptr || !it.shard->ready()) {
    start_waits(it, last_seen, found);
    return found;
  }
  pull_waits(it, last_seen, now, found);
  decision_waits(it, last_seen, now, found);
  return found;
}

}  // namespace paceline::server
