#include "common/wire/unfinished.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <iterator>
#include <optional>

#include "common/wire/tcp_received.h"

namespace paceline::wire {
namespace {

// What its owner has taken from a TCP connection so far; nothing where there is none.
std::optional<std::int64_t> taken_from(int descriptor) {
  const std::optional<std::int64_t> received = received_over(descriptor);
  if (!received) return std::nullopt;
  // Asked for second, so that a byte that arrives in between is not counted as taken.
  int unread = 0;
  if (ioctl(descriptor, SIOCINQ, &unread) != 0) return std::nullopt;
  return *received - unread;
}

}  // namespace

void Unfinished::accepted(int descriptor) {
  const auto socket = SocketId::of(descriptor);
  if (socket) connections_.insert_or_assign(descriptor, Connection{*socket});
}

int Unfinished::break_up(const std::function<bool()>& all_read, std::vector<SocketId>& which) {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const std::optional<std::int64_t> taken = taken_from(it->first);
    const bool there = taken && SocketId::of(it->first) == it->second.socket;  // not closed, and TCP
    if (there) it->second.taken = *taken;
    it = there ? std::next(it) : connections_.erase(it);
  }
  const std::int64_t allowed = all_read() ? held_bytes_max_ : held_bytes_max_unread_;
  int broken = 0;
  for (auto it = connections_.begin(); it != connections_.end();) {
    auto& [descriptor, connection] = *it;
    if (read_from_.contains(descriptor)) connection.taken_before = connection.taken;
    // What cannot be broken now, since no descriptor is free, is looked at again.
    const bool breaks = connection.taken - connection.taken_before > allowed &&
                        connection.socket.reset() != SocketId::ShutDown::kNoDescriptor;
    broken += breaks ? 1 : 0;
    if (breaks) which.push_back(connection.socket);
    it = breaks ? connections_.erase(it) : std::next(it);
  }
  read_from_.clear();
  return broken;
}

}  // namespace paceline::wire
