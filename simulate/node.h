// A simulated node: its workers, and the cache and the pulls that they share.
//
// The node's own I/O thread takes costs.message to send a push or a pull and to take a grant or an answer, of
// however many frames: while one is on its way it has time for the next. It is never busy with another.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "simulate/node_cache.h"
#include "simulate/surroundings.h"
#include "simulate/worker.h"

namespace paceline::simulate {

// Thread: one.
class Node {
 public:
  // `incarnation`: its number (events.h). Its caches are empty.
  Node(NodeId id, std::uint32_t incarnation, const Surroundings& world);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const { return id_; }
  // By thread.
  Worker& worker(std::uint32_t thread) { return workers_[thread]; }
  const std::deque<Worker>& workers() const { return workers_; }

  // `shard` has answered: with parameters, or that nothing is newer.
  void answer_arrives(std::uint32_t pull, ShardId shard, Ticks now);
  void unchanged(std::uint32_t pull, ShardId shard, Ticks now);
  // All-reduce: it has the first parameters itself.
  void parameters_here(std::uint32_t pull, Ticks now);

  // It does nothing from now on.
  void crash(Ticks now) { crashed_at_ = now; }
  bool crashed() const { return crashed_at_.has_value(); }
  Ticks crashed_at() const { return *crashed_at_; }
  // Whether it has reported what it did: all its workers know that nothing follows. A crash after that takes
  // nothing away.
  bool reported() const;
  // Whether what `thread` has sent with this stamp had left before the node crashed.
  bool has_left(std::uint32_t thread, std::uint32_t stamp) const {
    return !crashed_at_ || workers_[thread].sent().at(stamp).left <= *crashed_at_;
  }

 private:
  void answered(std::uint32_t pull, Ticks now);

  const NodeId id_;
  const Surroundings& world_;
  NodeCache cache_;
  std::deque<Worker> workers_;  // by thread
  std::optional<Ticks> crashed_at_;
};

}  // namespace paceline::simulate
