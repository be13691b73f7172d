// Why a shard does not answer, as it sees it: one line for each cause.
//
//   pulls of nodes 1 and 2 wait for version 118: shard 2 is at version 117, and decision 118 has not come
//     from the authority (last seen 0.2 s ago)
//   the pull of node 1 waits for revision 702 (version 117) to leave: node 4 (last seen 0.1 s ago) has 12
//     pieces to read and has taken none for 3.1 s
//   decision 119 and 3 messages behind it wait for a released version to leave: node 4 …
//
// Nothing here decides or remembers anything (common/log/stall_log.h knows what has become long). At the
// authority a decision is applied as it is made, so what has not been reached is the engine's to explain
// (authority/authority_waits.cc).
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "server/shard_service.h"

namespace paceline::server {
namespace {

// "the pull of node 1 waits for ", "pulls of node 1 and node 2 wait for "
std::string pulls_of(const std::set<Peer>& from) {
  std::vector<std::string> names;
  for (const Peer peer : from) names.push_back(to_string(peer));
  return from.size() == 1 ? "the pull of " + names.front() + " waits for "
                          : "pulls of " + enumerated(names) + " wait for ";
}

}  // namespace

std::vector<Wait> ShardService::waits(const LastSeen& last_seen, Ticks now) const {
  std::vector<Wait> found;
  if (!shard_ || !shard_->ready()) {
    start_waits(last_seen, found);
    return found;
  }
  pull_waits(last_seen, now, found);
  decision_waits(last_seen, now, found);
  return found;
}

void ShardService::start_waits(const LastSeen& last_seen, std::vector<Wait>& found) const {
  if (id_ == kAuthority) return;  // who is missing there
  const std::string here = "shard " + to_string(id_);
  if (!shard_) {
    found.push_back({"the wait for a node to join", here + " waits for the first node to join"});
    return;
  }
  found.push_back({"the wait for the initial parameters",
                   here + " waits for its initial parameters: " + std::to_string(shard_->initialized()) +
                       " of " + std::to_string(shard_->range().size()) + " floats have come from " +
                       with_last_seen_behind(Peer::of(NodeId(0)), last_seen)});
}

void ShardService::pull_waits(const LastSeen& last_seen, Ticks now, std::vector<Wait>& found) const {
  const Snapshot& current = shard_->now();
  std::map<Version, std::set<Peer>> not_reached;
  std::set<Peer> wait_for_leaving;
  for (const HeldPull& held : pending_.held()) {
    const bool reached = !held.pull.exact && current.version >= held.pull.min_version;
    (reached ? wait_for_leaving : not_reached[held.pull.min_version]).insert(held.from);
  }
  const Snapshot* const older = leaving_.state();
  if (!wait_for_leaving.empty() && older != nullptr) {
    const std::string what =
        "revision " + to_string(older->revision) + " (version " + to_string(older->version) + ") to leave";
    found.push_back({"the wait for " + what,
                     pulls_of(wait_for_leaving) + what + ": " + readers(last_seen, now), leavings_.usual()});
  }
  if (id_ == kAuthority) return;
  for (const auto& [version, from] : not_reached) {
    if (from.empty()) continue;
    const std::string what = "version " + to_string(version);
    found.push_back({"the wait for " + what,
                     pulls_of(from) + what + ": shard " + to_string(id_) + " is at version " +
                         to_string(current.version) + ", and decision " +
                         std::to_string(shard_->next_sequence()) + " has not come from the authority" +
                         bracketed_last_seen(Peer::of(kAuthority), last_seen),
                     versions_.usual()});
  }
}

void ShardService::decision_waits(const LastSeen& last_seen, Ticks now, std::vector<Wait>& found) const {
  if (!postponed_.empty()) {
    const std::string decision = "decision " + std::to_string(shard_->next_sequence());
    const std::size_t behind = postponed_.size() - 1;
    const std::string who =
        decision + (behind == 0 ? " waits" : " and " + std::to_string(behind) + " behind it wait");
    found.push_back({"the wait of " + decision + " for a released version to leave",
                     who + " for a released version to leave: " + readers(last_seen, now),
                     versions_.usual()});
  }
  if (withheld_.empty()) return;
  std::vector<std::string> gradients;
  for (const wire::GradientArrived& arrived : withheld_) {
    gradients.push_back("worker " + to_string(arrived.worker) + " (clock " + to_string(arrived.clock) + ")");
  }
  const std::string decision = "decision " + std::to_string(shard_->next_sequence());
  found.push_back({"the wait for " + decision + ", for room",
                   "gradients of " + enumerated(gradients) +
                       " are whole but not announced: as many as shard " + to_string(id_) +
                       " holds of a worker wait for decision " + std::to_string(shard_->next_sequence()) +
                       ", which has not come from the authority" +
                       bracketed_last_seen(Peer::of(kAuthority), last_seen),
                   versions_.usual()});
}

// Who still reads what was sent to it.
std::string ShardService::readers(const LastSeen& last_seen, Ticks now) const {
  std::vector<std::string> names;
  for (const ReplyWindow::Reading& reading : leaving_.readings()) {
    std::string text = with_last_seen_behind(Peer::of(reading.node), last_seen) + " has " +
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

}  // namespace paceline::server
