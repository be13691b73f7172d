#include "simulate/node.h"

#include <algorithm>

namespace paceline::simulate {

Node::Node(NodeId id, std::uint32_t incarnation, const Surroundings& world)
    : id_(id), world_(world), cache_(id, incarnation, world) {
  const std::uint32_t threads = world.plan.cluster.threads_per_node;
  for (std::uint32_t t = 0; t < threads; ++t) {
    workers_.emplace_back(WorkerId(id, t), incarnation * threads + t, cache_, world);
  }
}

void Node::answer_arrives(std::uint32_t pull, ShardId shard, Ticks now) {
  if (!crashed()) {
    cache_.install(pull, shard);
  } else if (world_.training != nullptr) {
    world_.training->drop(pull, shard);  // another incarnation of it may be there
  }
  answered(pull, now);
}

void Node::unchanged(std::uint32_t pull, ShardId shard, Ticks now) {
  if (!crashed()) cache_.confirm(pull, shard);
  answered(pull, now);
}

// Those of version 0; every later version has been installed when it was made.
void Node::parameters_here(std::uint32_t pull, Ticks now) {
  cache_.install_reduced(Version(0));
  answered(pull, now);
}

void Node::answered(std::uint32_t pull, Ticks now) {
  const std::optional<NodeCache::Answered> over = cache_.answered(pull);
  if (!over || crashed()) return;
  for (const std::uint32_t thread : over->waiting) workers_[thread].arrived(now);
  for (Worker& worker : workers_) worker.note_answered(over->ticket, now);
}

bool Node::reported() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.finished(); });
}

}  // namespace paceline::simulate
