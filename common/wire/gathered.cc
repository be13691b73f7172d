#include "common/wire/gathered.h"

#include <algorithm>

#include "common/wire/codec.h"
#include "common/wire/unread.h"

namespace paceline::wire {
namespace {

bool has_payload(const Outgoing& message) { return !message.payload.empty(); }

}  // namespace

std::int64_t TrafficCounters::* counter_of(const Body& body) {
  if (std::holds_alternative<Push>(body)) return &TrafficCounters::push_bytes;
  const bool parameters = std::holds_alternative<Parameters>(body) || std::holds_alternative<Unchanged>(body);
  return parameters ? &TrafficCounters::parameter_bytes : &TrafficCounters::other_bytes;
}

bool joins(std::span<const Outgoing> together, const Outgoing& message) {
  if (together.empty()) return true;
  if (!message.travels_with_others || together.size() == kTogetherMax) return false;
  return !has_payload(message) || std::none_of(together.begin(), together.end(), has_payload);
}

std::size_t carrier(std::span<const Outgoing> together) {
  const auto found = std::find_if(together.begin(), together.end(), has_payload);
  return found == together.end() ? 0 : static_cast<std::size_t>(found - together.begin());
}

std::span<const Outgoing> Gathered::of(const PeerId& to) const {
  const auto found = messages_.find(to);
  if (found == messages_.end()) return {};
  return found->second;
}

void Gathered::add(const PeerId& to, Outgoing message) {
  const auto [found, is_new] = messages_.try_emplace(to);
  if (is_new) peers_.push_back(to);
  found->second.push_back(std::move(message));
}

std::vector<Outgoing> Gathered::take(const PeerId& to) {
  const auto found = messages_.find(to);
  if (found == messages_.end()) return {};
  return std::exchange(found->second, {});
}

Gathered::ByPeer Gathered::take_all() {
  ByPeer all;
  for (PeerId& peer : peers_) {
    std::vector<Outgoing> messages = take(peer);
    if (!messages.empty()) all.emplace_back(std::move(peer), std::move(messages));
  }
  peers_.clear();
  messages_.clear();
  return all;
}

std::int64_t Gathered::waiting(const PeerId& to) const {
  const std::span<const Outgoing> messages = of(to);
  return std::count_if(messages.begin(), messages.end(),
                       [](const Outgoing& message) { return message.payload.size <= kCopiedBytesMax; });
}

}  // namespace paceline::wire
