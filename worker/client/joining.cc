#include "worker/client/joining.h"

#include <algorithm>
#include <utility>

#include "common/wire/reconnect_pause.h"

namespace paceline {
namespace {

std::string generation_text(std::uint64_t generation) { return "generation " + std::to_string(generation); }

}  // namespace

Joining::Joining(std::vector<ServerLink>& links, ClientState& state, Lost before, std::uint64_t last,
                 const ClusterSection& cluster)
    : links_(links),
      state_(state),
      before_(before),
      last_(last),
      lease_(cluster.lease),
      join_again_after_(
          std::max<std::chrono::nanoseconds>(cluster.lease, cluster.reconnect_timeout / kJoinsMax)) {}

void Joining::asked(ServerLink& link, Ticks now) const {
  link.asked = now;
  link.reconnects_at.reset();
}

bool Joining::waits_its_turn(ServerLink& link, const wire::Error& error, const Log& log, Ticks now) {
  if (error.code != StatusCode::kUnavailable || link.welcomed()) return false;
  if (!std::exchange(link.waits_its_turn, true)) {
    log.info(link.name() + " cannot let this node in yet, and is asked again: " + error.message);
  }
  turned_away(link, error.message, now);
  return true;
}

bool Joining::welcomed(ServerLink& link, const wire::Welcome& welcome, Ticks now) {
  if (over_ || link.welcomed()) return false;  // a Join that was given twice
  if (welcome.generation <= last_) {
    turned_away(link,
                "it is of " + generation_text(welcome.generation) + ", and this node has been in " +
                    generation_text(last_) + " already",
                now);
    return false;
  }
  if (link.shard == kAuthority) under_way_ = welcome.under_way;
  link.generation = welcome.generation;
  link.was_welcomed = true;
  link.initialized = welcome.initialized;
  state_.stands(link.shard, {welcome.generation, ""});
  const auto newest = std::max_element(links_.begin(), links_.end(), [](const auto& a, const auto& b) {
                        return a.generation < b.generation;
                      })->generation;
  for (ServerLink& other : links_) {
    if (!other.welcomed() || other.generation == newest) continue;
    turned_away(
        other,
        "it is of " + generation_text(other.generation) + ", and others are of " + generation_text(newest),
        now);
  }
  over_ = std::all_of(links_.begin(), links_.end(),
                      [newest](const ServerLink& each) { return each.generation == newest; });
  return over_ && under_way_;
}

void Joining::turned_away(ServerLink& link, const std::string& why, Ticks now) {
  if (link.reconnects_at) return;
  link.broken.reset();
  link.generation = 0;
  link.reconnects_at = now + std::min<std::chrono::nanoseconds>(kAgainAfter, lease_);
  state_.stands(link.shard, {0, why});
}

bool Joining::may_pass(const ServerLink& link, const wire::Error& error) const {
  if (!keeps_asking() || error.code == StatusCode::kInvalidArgument) return false;  // it does not fit
  const bool is_final = error.code == StatusCode::kFailedPrecondition && link.shard == kAuthority &&
                        before_ == Lost::kTheAuthority && !link.was_welcomed;
  return !is_final;
}

void Joining::give_up_if_silent(ServerLink& link, Ticks now) {
  const bool waits = !link.welcomed() && !link.broken && !link.reconnects_at && !link.answers;
  if (waits && now - link.asked > wire::kAnswersWithin) turned_away(link, "it does not answer", now);
}

Joining::Due Joining::due(const ServerLink& link, Ticks now) const {
  if (link.reconnects_at) return now >= *link.reconnects_at ? Due::kConnection : Due::kNothing;
  const bool unanswered = keeps_asking() && !link.welcomed() &&
                          now - std::max(link.asked, link.last_received) > join_again_after_;
  return unanswered ? Due::kJoin : Due::kNothing;
}

std::chrono::nanoseconds Joining::timeout(const ClusterSection& cluster) const {
  return before_ == Lost::kNothing ? cluster.start_timeout : cluster.reconnect_timeout;
}

Status Joining::check_joined(const std::vector<ClientState::Standing>& servers, NodeId node,
                             std::chrono::nanoseconds waited) const {
  std::uint64_t newest = 1;
  for (const auto& server : servers) newest = std::max(newest, server.generation);
  std::string missing;
  for (std::size_t k = 0; k < links_.size(); ++k) {
    if (servers[k].generation == newest) continue;
    missing += (missing.empty() ? "" : ", ") + links_[k].name();
    if (!servers[k].refusal.empty()) missing += " (" + servers[k].refusal + ")";
  }
  if (missing.empty()) return Status::ok();
  const std::string seconds = std::to_string(std::chrono::ceil<std::chrono::seconds>(waited).count()) + " s";
  if (before_ == Lost::kNothing) {
    return deadline_exceeded(missing + " did not answer node " + to_string(node) + "'s join within " +
                             seconds);
  }
  return deadline_exceeded(missing + " did not let node " + to_string(node) + " join again within " +
                           seconds + " (cluster.reconnect_timeout)");
}

}  // namespace paceline
