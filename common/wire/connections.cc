#include "common/wire/connections.h"

#include <iterator>

namespace paceline::wire {

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
  connection->heard(from);
}

bool Connections::said_malformed(int descriptor, const std::string& from) {
  if (max_ == 0) forget_ended();  // nobody else does
  Connection* const connection = find(descriptor);
  if (connection == nullptr || (connection->member && connection->from != from)) return false;
  connection->heard(from);
  if (++connection->malformed < kMalformedMax) return false;
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
  int broken = 0;
  while (connections_.size() > max) {
    auto first = connections_.end();
    for (auto it = connections_.begin(); it != connections_.end(); ++it) {
      if (it->second.member) continue;
      if (first == connections_.end() || it->second.number < first->second.number) first = it;
    }
    if (first == connections_.end()) break;  // members all
    first->second.socket.reset(spare_);
    connections_.erase(first);
    ++broken;
  }
  return broken;
}

}  // namespace paceline::wire
