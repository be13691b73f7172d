#include "server/run/server_view.h"

#include <utility>

#include "common/config/names.h"
#include "common/config/shown_name.h"

namespace paceline::server {

LastSeen ServerView::last_seen(Ticks now) const {
  return [this, now](Peer peer) -> std::optional<std::chrono::nanoseconds> {
    if (server_.setup.is_authority() || peer != Peer::of(kAuthority)) {
      return server_.connections.members().silent_for(peer, now);
    }
    if (!server_.link.is_welcomed()) return std::nullopt;
    return now - server_.link.seen();
  };
}

std::vector<Wait> ServerView::waits(Ticks now) const {
  const ServerSetup& setup = server_.setup;
  if (server_.role.follows()) return server_.replication->waits(now);
  if (setup.is_authority() && !server_.authority) {
    return {{"the wait for the shards to resume",
             "shard " + to_string(server_.resuming.missing().front()) +
                 " has not joined: what the run is resumed from is not known"}};
  }
  if (!server_.authority && !server_.link.is_welcomed()) {
    return {{"the wait for the authority",
             setup.name() + " waits for the authority (" + server_.link.endpoint() + ") to answer its join"}};
  }
  std::vector<Wait> found;
  if (server_.authority) found = server_.authority->waits(last_seen(now));
  if (server_.generation.waits()) {
    found.push_back(
        {"the wait for the checkpoint", setup.name() + " waits for its file of the checkpoint to be read"});
    return found;
  }
  if (server_.replication) {
    for (Wait& wait : server_.replication->waits(now)) found.push_back(std::move(wait));
  }
  for (Wait& wait : server_.service.waits(last_seen(now), now)) found.push_back(std::move(wait));
  return found;
}

RunStatus ServerView::status(const std::string& stall, Ticks now) const {
  const RunConfig& config = server_.setup.config;
  RunStatus status;
  if (server_.authority) {
    status = server_.authority->status(last_seen(now), now);
  } else {
    // A resumed run whose checkpoint is not chosen yet: its numbers are in there.
    status.run = shown_name(config.run);
    status.policy = name_of(config.sync.policy);
    status.state = "resuming";
    status.iterations_total = config.train.total_iterations;
    status.workers_total = config.cluster.cluster().workers();
    if (!server_.resuming.missing().empty()) {
      for (Wait& wait : waits(now)) status.waits.push_back(std::move(wait.text));
    }
  }
  if (server_.end.ended()) {
    const Status& result = server_.end.result();
    status.state = "over";
    if (status.outcome.empty()) status.outcome = result.is_ok() ? "ok" : result.message();
  }
  status.stall = stall;
  const wire::TrafficCounters& counted = server_.connections.router().counters();
  status.server = {counted.push_bytes, counted.parameter_bytes, counted.shared_bytes,
                   counted.messages_received, counted.malformed};
  status.moved += moved();
  return status;
}

Traffic ServerView::moved() const {
  const wire::TrafficCounters& counted = server_.connections.router().counters();
  Traffic sum{counted.push_bytes, counted.parameter_bytes, counted.shared_bytes};
  sum += server_.shards.moved();
  return sum;
}

}  // namespace paceline::server
