#include "common/wire/gathered.h"

#include <algorithm>

#include "common/wire/codec.h"
#include "common/wire/unread.h"

namespace paceline::wire {

std::int64_t TrafficCounters::*counter_of(const Body& body) {
  if (std::holds_alternative<Push>(body)) return &TrafficCounters::push_bytes;
  const bool parameters = std::holds_alternative<Parameters>(body) || std::holds_alternative<Unchanged>(body);
  return parameters ? &TrafficCounters::parameter_bytes : &TrafficCounters::other_bytes;
}

std::size_t together(std::span<const Outgoing> messages) {
  std::size_t count = 0;
  std::size_t payloads = 0;
  for (const Outgoing& message : messages.first(std::min(messages.size(), kTogetherMax))) {
    if (!message.travels_with_others && count > 0) break;
    if (!message.payload.empty() && ++payloads > 1) break;
    ++count;
    if (!message.travels_with_others) break;
  }
  return count;
}

std::size_t carrier(std::span<const Outgoing> together) {
  const auto with_payload = std::find_if(together.begin(), together.end(),
                                         [](const Outgoing& message) { return !message.payload.empty(); });
  return with_payload == together.end() ? 0 : static_cast<std::size_t>(with_payload - together.begin());
}

void Gathered::add(const PeerId& to, Outgoing message) {
  const auto [at, is_new] = at_.try_emplace(to, by_peer_.size());
  if (is_new) by_peer_.emplace_back(to, std::vector<Outgoing>());
  by_peer_[at->second].second.push_back(std::move(message));
}

std::int64_t Gathered::waiting(const PeerId& to) const {
  const auto at = at_.find(to);
  if (at == at_.end()) return 0;
  const std::vector<Outgoing>& messages = by_peer_[at->second].second;
  return std::count_if(messages.begin(), messages.end(), [](const Outgoing& message) {
    return message.payload.size <= kCopiedBytesMax;
  });
}

void Gathered::forget(const PeerId& to) {
  const auto at = at_.find(to);
  if (at != at_.end()) by_peer_[at->second].second.clear();
}

Gathered::ByPeer Gathered::take() {
  at_.clear();
  return std::exchange(by_peer_, {});
}

}  // namespace paceline::wire
