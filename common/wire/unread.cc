#include "common/wire/unread.h"

#include <algorithm>

namespace paceline::wire {

Unread::Queue& Unread::of(const std::string& peer) {
  const auto known = queues_.find(peer);
  if (known != queues_.end()) return known->second;
  if (queues_.size() >= forget_at_) {
    std::erase_if(queues_, [](const auto& entry) { return !entry.second.is_marked(); });
    forget_at_ = std::max(kPeersAtLeast, 2 * queues_.size());
  }
  return queues_[peer];
}

std::int64_t Unread::waiting(const std::string& peer) const {
  const auto known = queues_.find(peer);
  return known == queues_.end() ? 0 : known->second.waiting();
}

}  // namespace paceline::wire
