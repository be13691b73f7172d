#include "simulate/node_cache.h"

#include <algorithm>
#include <utility>

namespace paceline::simulate {

NodeCache::NodeCache(NodeId node, std::uint32_t incarnation, const Surroundings& world)
    : node_(node),
      incarnation_(incarnation),
      world_(world),
      stamps_(static_cast<std::uint32_t>(world.plan.slices.size())) {}

cache::ProcessCacheState NodeCache::newest_known() const {
  return {std::max(known_.version, stamps_.version()), std::max(known_.revision, stamps_.revision())};
}

void NodeCache::note(const sync::Grant& grant) {
  known_ = {std::max(known_.version, grant.version), std::max(known_.revision, grant.revision)};
}

NodeCache::Request NodeCache::ask(Version min_version, std::int64_t fragment) {
  const Version newest = newest_known().version;
  for (const std::uint32_t place : open_) {
    const Pull& pull = world_.pulls[place];
    if (pull.fragment != fragment || !cache::serves(pull.min_version, min_version, newest)) continue;
    return {pull.ticket, place, false};
  }
  const Plan& plan = world_.plan;
  const auto of_it =
      std::count_if(plan.slices.begin(), plan.slices.end(),
                    [fragment](const SliceSizes& slice) { return slice.fragment == fragment; });
  const std::uint32_t place =
      world_.pulls.begin(node_, incarnation_, min_version, fragment, static_cast<std::uint32_t>(of_it));
  Pull& pull = world_.pulls[place];
  for (std::uint32_t k = 0; k < plan.shards.size(); ++k) {
    if (const auto slice = plan.slice_of(ShardId(k), fragment))
      pull.have[k] = stamps_.slice(ShardId(*slice)).revision;
  }
  open_.push_back(place);
  return {pull.ticket, place, true};
}

void NodeCache::send(std::uint32_t pull, Ticks now) {
  if (world_.reductions != nullptr) {
    world_.events.at(now, {EventKind::kParametersHere, pull, 0});
    return;
  }
  for (std::uint32_t k = 0; k < world_.plan.shards.size(); ++k) {
    if (!world_.plan.slice_of(ShardId(k), world_.pulls[pull].fragment)) continue;
    world_.network.message({EventKind::kPullArrives, k, pull}, now + world_.plan.costs.message);
  }
}

bool NodeCache::is_open(Ticket ticket) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](std::uint32_t place) { return world_.pulls[place].ticket == ticket; });
}

void NodeCache::install(std::uint32_t place, ShardId shard) {
  const ShardId slice(*world_.plan.slice_of(shard, world_.pulls[place].fragment));
  stamps_.install(slice, world_.pulls[place].answers[shard.value]);
  if (world_.training != nullptr) world_.training->install(node_, place, shard, slice);
}

// The same parameters, by now of a newer version: only where they are what is here (process_cache.h).
void NodeCache::confirm(std::uint32_t place, ShardId shard) {
  const cache::SliceStamp& stamp = world_.pulls[place].answers[shard.value];
  const ShardId slice(*world_.plan.slice_of(shard, world_.pulls[place].fragment));
  if (stamps_.slice(slice).revision == stamp.revision) stamps_.install(slice, stamp);
  if (world_.training != nullptr) world_.training->confirmed(node_, slice, stamp);
}

void NodeCache::install_reduced(Version version) {
  const Cluster& cluster = world_.plan.cluster;
  stamps_.install(ShardId(0), {version, Revision(version.value * cluster.workers()),
                               std::vector<Clock>(cluster.threads_per_node, Clock(version.value))});
}

std::optional<NodeCache::Answered> NodeCache::answered(std::uint32_t place) {
  Pull& pull = world_.pulls[place];
  if (--pull.shards_open > 0) return std::nullopt;
  open_.erase(std::find(open_.begin(), open_.end(), place));
  Answered answered{pull.ticket, std::exchange(pull.waiting, {})};
  world_.pulls.end(place);
  return answered;
}

}  // namespace paceline::simulate
