// How a shard begins: with the range and the memory that the layout of the first node asks for, and from a checkpoint
// where the run is resumed.
#include <algorithm>
#include <string>
#include <utility>

#include "common/hex.h"
#include "common/params/shard_ranges.h"
#include "common/process/machine.h"
#include "common/wire/memory.h"
#include "common/wire/segment_sizes.h"
#include "server/service/shard_service.h"
#include "server/store/memory_bound.h"

namespace paceline::server {
namespace {

// For every state that the shard may hold, one that a checkpoint is written of, and the blocks that its pool
// keeps. What is not handed out costs nothing. Null: nothing is shared.
Result<std::shared_ptr<wire::SharedSegment>> make_memory(const ClusterSection& cluster, Range range,
                                                         const Log& log) {
  std::shared_ptr<wire::SharedSegment> made;
  if (cluster.shared_memory == SharedMemory::kOff) return made;
  static_assert(2 + kRetainedMax + 1 + 1 <= wire::kSharedStates);
  auto memory = wire::SharedSegment::create(wire::parameter_segment_bytes(range.size()));
  if (memory.is_ok()) {
    made = std::move(memory).value();
  } else if (cluster.shared_memory == SharedMemory::kOn) {
    return Status(memory.status()).with_context("cluster.shared_memory is on");
  } else {
    log.warn("no memory is shared with nodes of this machine: " + memory.status().message());
  }
  return made;
}

}  // namespace

Result<Range> ShardService::open(const Layout& layout) {
  if (shard_) return shard_->range();
  const Range range = shard_ranges(layout, config_.train.optimizer, config_.cluster.shards)[id_.value];
  const double needed = memory_bound(range.size(), config_).least;
  const double usable = usable_memory_bytes();
  if (needed > usable) {
    return resource_exhausted("shard " + to_string(id_) + " of " + std::to_string(range.size()) +
                              " floats needs " + std::to_string(static_cast<std::int64_t>(needed / 1e6)) +
                              " MB, this process may have " +
                              std::to_string(static_cast<std::int64_t>(usable / 1e6)) + " MB");
  }
  // All that lies here at once in the steady state: what is needed, and a gradient on its way from each
  // worker.
  const double gradients = static_cast<double>(range.size()) * sizeof(float) * cluster_.workers();
  if (config_.cluster.huge_pages) {
    wire::prefer_huge_pages(static_cast<std::size_t>(std::min(needed + gradients, usable)));
  }
  layout_hash_ = layout.hash();
  ShardSettings settings = shard_settings(config_);
  PACELINE_ASSIGN_OR_RETURN(memory_, make_memory(config_.cluster, range, log_));
  settings.memory = memory_;
  // A gradient more than is held here: the one being computed.
  node_memory_max_ = wire::gradient_segment_bytes(layout.size(), config_.cluster.threads_per_node,
                                                  settings.gradients_max + 1);
  shard_.emplace(id_, range, layout, std::move(settings));
  if (resumed_from_) PACELINE_RETURN_IF_ERROR(restore());
  return range;
}

Status ShardService::resume_from(ShardFile file) {
  resumed_from_ = std::move(file);
  return shard_ ? restore() : Status::ok();
}

Status ShardService::restore() {
  ShardFile file = *std::exchange(resumed_from_, std::nullopt);
  const std::string what = "the checkpoint of shard " + to_string(id_);
  if (file.info.owner.layout_hash != layout_hash_ || file.info.owner.range != shard_->range()) {
    return failed_precondition(what + " is of another parameter layout than the nodes have: got " +
                               hex(file.info.owner.layout_hash) + ", expected " + hex(layout_hash_));
  }
  PACELINE_RETURN_IF_ERROR(shard_->restore(std::move(file.image)));
  outbox_.send(Peer::of(kAuthority), {wire::ShardReady{id_, layout_hash_, shard_->now().version}, {}});
  answer_ready();
  return Status::ok();
}

}  // namespace paceline::server
