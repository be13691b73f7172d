// A norm group over the channels between nodes (common/task/peers.h): each member sends to each other one, a message a
// layer and pass. Group g of G nodes are nodes g G to g G + G - 1.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/network/network.h"
#include "common/task/peers.h"
#include "worker/model/norm_group.h"

namespace paceline {

class PeerNormGroup final : public NormGroup {
 public:
  PeerNormGroup(NodeId node, std::uint32_t members) : node_(node), members_(members) {}

  // Null: there are none any more. Thread: any.
  void meet(std::shared_ptr<PeerChannels> peers);
  // The next step is of this clock. Thread: that of exchange().
  void begin(Clock clock);
  // As TaskFactory::peer_bounds(), by networks of these layers.
  static std::vector<PeerBounds> peer_bounds(NodeId node, std::uint32_t members, const NetworkSpec& network);

  // Errors that status() then has: those of the channels; kFailedPrecondition a member is at another step.
  std::vector<NormPart> exchange(std::size_t layer, NormPass pass, NormPart own) override;
  Status status() const override { return status_; }
  // For how long it has waited for the others since begin().
  std::chrono::nanoseconds waited() const { return waited_; }

 private:
  Result<std::vector<NormPart>> try_to(std::size_t layer, NormPass pass, const NormPart& own);
  std::uint32_t first() const { return node_.value / members_ * members_; }

  const NodeId node_;
  const std::uint32_t members_;
  Clock clock_;
  Status status_;
  std::chrono::nanoseconds waited_{0};
  std::mutex mutex_;
  std::shared_ptr<PeerChannels> peers_;  // behind the lock
};

}  // namespace paceline
