// What the machine allows: the bytes that an all-reduce of any plan with 2 S (P - 1) / P of them sends, over plain TCP
// sockets around a ring, and the same floats added. Nobody waits for anybody's sum, so the result means nothing.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/mesh/peer_socket.h"

namespace paceline::bench {

// The ends that a rank has: one connection towards the next, one from the rank before.
struct RingEnds {
  int next = -1;
  int before = -1;
};

// Connections of all ranks on the loopback, made before the processes are. Empty: the system refuses one.
inline std::vector<RingEnds> connect_ring(std::uint32_t ranks) {
  std::vector<RingEnds> ends(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, at, size) != 0 || listen(listening, 1) != 0 ||
        getsockname(listening, at, &size) != 0) {
      return {};
    }
    const int next = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(next, at, size) != 0) return {};
    const int accepted = accept(listening, nullptr, nullptr);
    close(listening);
    for (const int end : {next, accepted}) {
      const int on = 1;
      setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      // As ours: with what the system takes by itself the loop takes twice as long.
      setsockopt(end, SOL_SOCKET, SO_SNDBUF, &mesh::kSendBufferWithinMachine, sizeof(int));
    }
    ends[rank].next = next;
    ends[(rank + 1) % ranks].before = accepted;
  }
  return ends;
}

// Sends 2 S (P - 1) / P bytes of `vector` and receives as many, of which the first half is added to it. False: a
// connection broke.
inline bool go_around(const RingEnds& ends, std::uint32_t ranks, std::span<float> vector) {
  constexpr std::size_t kPiece = 256 * 1024;
  alignas(64) static std::array<float, kPiece / sizeof(float)> piece;
  const std::size_t part = vector.size() / ranks * (ranks - 1) * sizeof(float);
  const auto* const from = reinterpret_cast<const char*>(vector.data());
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < 2 * part || received < 2 * part) {
    std::array<pollfd, 2> wait = {{{sent < 2 * part ? ends.next : -1, POLLOUT, 0},
                                   {received < 2 * part ? ends.before : -1, POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), -1) < 0) return false;
    if (wait[0].revents != 0) {
      const std::size_t at = sent % part;
      const ssize_t n = send(ends.next, from + at, part - at, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return false;
      sent += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    }
    if (wait[1].revents != 0) {
      const std::size_t in_piece = received % kPiece;
      const ssize_t n = recv(ends.before, reinterpret_cast<char*>(piece.data()) + in_piece,
                             std::min(kPiece - in_piece, 2 * part - received), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
      const std::size_t whole_before = received / sizeof(float);
      received += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
      const std::size_t added = std::min(received, part) / sizeof(float);
      const float* const values = piece.data() + whole_before % piece.size();
      for (std::size_t i = whole_before; i < added; ++i) vector[i] += values[i - whole_before];
    }
  }
  return true;
}

}  // namespace paceline::bench
