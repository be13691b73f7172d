#include "worker/model/peer_norm_group.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/ticks.h"

namespace paceline {
namespace {

// A member that has what it waits for sends of the next layer before this one has all of this layer.
constexpr std::size_t kAheadMax = 2;

PeerMessage message_of(Clock clock, std::size_t layer, NormPass pass, const NormPart& part) {
  std::vector<float> both = part.first;
  both.insert(both.end(), part.second.begin(), part.second.end());
  return {clock.value,
          part.samples,
          static_cast<std::uint32_t>(layer),
          pass == NormPass::kBackward ? 1U : 0U,
          0.0,
          0,
          std::move(both)};
}

}  // namespace

void PeerNormGroup::meet(std::shared_ptr<PeerChannels> peers) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
}

void PeerNormGroup::begin(Clock clock) {
  clock_ = clock;
  waited_ = {};
}

std::vector<PeerBounds> PeerNormGroup::peer_bounds(NodeId node, std::uint32_t members,
                                                   const NetworkSpec& network) {
  std::int64_t floats = 0;
  for (const Layer& layer : network.layers) {
    if (layer.mixes_samples()) floats = std::max(floats, 2 * layer.out.channels);
  }
  const std::uint32_t first = node.value / members * members;
  std::vector<PeerBounds> bounds(first + members);
  std::fill(bounds.begin() + first, bounds.end(), PeerBounds{floats, kAheadMax});
  return bounds;
}

std::vector<NormPart> PeerNormGroup::exchange(std::size_t layer, NormPass pass, NormPart own) {
  if (status_.is_ok()) {
    Result<std::vector<NormPart>> all = try_to(layer, pass, own);
    if (all.is_ok()) return std::move(all).value();
    status_ = all.status();
  }
  std::vector<NormPart> alone;
  alone.push_back(std::move(own));
  return alone;
}

Result<std::vector<NormPart>> PeerNormGroup::try_to(std::size_t layer, NormPass pass, const NormPart& own) {
  std::shared_ptr<PeerChannels> peers;
  {
    const std::lock_guard lock(mutex_);
    peers = peers_;
  }
  if (peers == nullptr)
    return failed_precondition("train.batch_norm_group: a node that is connected to no other");
  for (std::uint32_t rank = first(); rank < first() + members_; ++rank) {
    if (rank == node_.value) continue;
    PACELINE_RETURN_IF_ERROR(peers->send(NodeId(rank), message_of(clock_, layer, pass, own)));
  }
  std::vector<NormPart> all;
  for (std::uint32_t rank = first(); rank < first() + members_; ++rank) {
    if (rank == node_.value) {
      all.push_back(own);
      continue;
    }
    const Ticks since = steady_now();
    Result<PeerMessage> received = peers->receive(NodeId(rank));
    waited_ += steady_now() - since;
    PACELINE_ASSIGN_OR_RETURN(const PeerMessage came, std::move(received));
    const PeerMessage like = message_of(clock_, layer, pass, own);
    if (came.clock != like.clock || came.micro_batch != like.micro_batch || came.backward != like.backward ||
        came.floats.size() != like.floats.size() || came.position < 1) {
      return failed_precondition("train.batch_norm_group: node " + std::to_string(rank) + " is at layer " +
                                 std::to_string(came.micro_batch) + " of clock " +
                                 std::to_string(came.clock) + ", " + std::to_string(came.floats.size()) +
                                 " numbers, expected layer " + std::to_string(layer) + " of clock " +
                                 to_string(clock_) + ", " + std::to_string(like.floats.size()));
    }
    const std::span<const float> floats = came.floats.span();
    const auto middle = floats.begin() + static_cast<std::ptrdiff_t>(own.first.size());
    all.push_back({came.position, {floats.begin(), middle}, {middle, floats.end()}});
  }
  return all;
}

}  // namespace paceline
