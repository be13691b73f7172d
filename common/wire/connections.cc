#include "common/wire/connections.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include "common/wire/tcp_received.h"

namespace paceline::wire {
namespace {

constexpr std::int64_t kGreetingBytes = 64;

enum class Received { kNothing, kGreeting, kMore };

Received received_of(int descriptor) {
  const std::int64_t bytes = received_over(descriptor).value_or(0);
  if (bytes == 0) return Received::kNothing;
  return bytes <= kGreetingBytes ? Received::kGreeting : Received::kMore;
}

}  // namespace

// One whose number was another's before is another connection.
Connections::Connection* Connections::find(int descriptor) {
  const auto socket = SocketId::of(descriptor);
  if (!socket) return nullptr;
  const auto known = connections_.find(descriptor);
  if (known != connections_.end() && known->second.socket == *socket) return &known->second;
  return &connections_.insert_or_assign(descriptor, Connection{*socket, next_++}).first->second;
}

void Connections::accepted(int descriptor) {
  if (max_ > 0) find(descriptor);
}

void Connections::admit(int descriptor, const std::string& from) {
  if (max_ == 0) return;
  Connection* const connection = find(descriptor);
  if (connection == nullptr) return;
  connection->member = true;
  connection->note_sender(from);
}

bool Connections::count(Wrong what, int descriptor, const std::string& from) {
  if (max_ == 0) forget_ended();  // nobody else does
  Connection* const connection = find(descriptor);
  if (connection == nullptr || (connection->member && connection->from != from)) return false;
  connection->note_sender(from);
  connection->wrong += static_cast<int>(what);
  if (connection->wrong < kWrongMax) return false;
  connection->socket.reset(spare_);
  connections_.erase(descriptor);
  return true;
}

void Connections::forget_ended() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const bool there = SocketId::of(it->first) == it->second.socket;
    it = there ? std::next(it) : connections_.erase(it);
  }
}

int Connections::break_surplus() {
  const auto max = static_cast<std::size_t>(max_);
  if (max_ == 0 || connections_.size() <= max) return 0;
  forget_ended();
  if (connections_.size() <= max) return 0;
  std::vector<std::tuple<Received, std::uint64_t, int>>
      unknown;  // what, in which order they came, descriptor
  for (const auto& [descriptor, connection] : connections_) {
    if (!connection.member) unknown.emplace_back(received_of(descriptor), connection.number, descriptor);
  }
  std::sort(unknown.begin(), unknown.end());
  unknown.resize(std::min(unknown.size(), connections_.size() - max));
  for (const auto& [received, number, descriptor] : unknown) {
    const auto it = connections_.find(descriptor);
    it->second.socket.reset(spare_);
    connections_.erase(it);
  }
  return static_cast<int>(unknown.size());
}

}  // namespace paceline::wire
