// A simulated node's process cache, as stamps, and its pulls: what it has of each slice, what it knows to
// exist, and what it has asked for. In training mode the numbers move along (training.h).
//
// A pull that is open serves whoever asks for as much: he joins it, and nothing is sent.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cache/freshness.h"
#include "common/cache/snapshot.h"
#include "common/sync/actions.h"
#include "simulate/surroundings.h"

namespace paceline::simulate {

// Thread: one.
class NodeCache {
 public:
  // Empty. `incarnation`: the node's number (events.h).
  NodeCache(NodeId node, std::uint32_t incarnation, const Surroundings& world);

  const cache::SnapshotStamp& stamps() const { return stamps_; }
  cache::ProcessCacheState state() const { return {stamps_.version(), stamps_.revision()}; }
  // That an answer or, once a worker has looked at it, a grant has named.
  cache::ProcessCacheState newest_known() const;
  void note(const sync::Grant& grant);

  // Asks for parameters of `min_version` or newer, of a fragment. `must_be_sent`: it joined no open pull, and
  // send() is for the caller to call.
  struct Request {
    Ticket ticket;
    std::uint32_t place;
    bool must_be_sent;
  };
  Request ask(Version min_version, std::int64_t fragment);
  void send(std::uint32_t pull, Ticks now);
  bool is_open(Ticket ticket) const;

  // `shard` has answered: with parameters, or that nothing is newer.
  void install(std::uint32_t pull, ShardId shard);
  void confirm(std::uint32_t pull, ShardId shard);
  // All-reduce: the parameters of `version` have been made here, of every worker's gradients.
  void install_reduced(Version version);

  // A shard less is to answer. Once it was the last: whose pull it was, which is over.
  struct Answered {
    Ticket ticket;
    std::vector<std::uint32_t> waiting;  // threads
  };
  std::optional<Answered> answered(std::uint32_t pull);

 private:
  NodeId node_;
  std::uint32_t incarnation_;
  const Surroundings& world_;
  cache::SnapshotStamp stamps_;
  cache::ProcessCacheState known_;
  std::vector<std::uint32_t> open_;  // pulls, in the order in which they were asked
};

}  // namespace paceline::simulate
