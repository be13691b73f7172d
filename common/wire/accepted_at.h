// AcceptedAt: tells a connection that came in at an endpoint from whatever else has its descriptor by now.
// ZeroMQ says which descriptor it has accepted, and we read that a while later. By then the connection may be
// gone, and its number that of a socket with which this process has connected to somebody: that must not be
// watched, and broken, as a stranger's.
//
//   came in at tcp://*:5555   its own port is 5555       at ipc://path   its own name is the path
//   connects to somebody      a port that was free                       it has no name
//
// Thread: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

namespace paceline::wire {

class AcceptedAt {
 public:
  // "tcp://host:port" or "ipc://path", as it is bound.
  explicit AcceptedAt(const std::string& endpoint) : tcp_(endpoint.starts_with("tcp://")) {
    const char* const end = endpoint.data() + endpoint.size();
    if (tcp_) std::from_chars(endpoint.data() + endpoint.rfind(':') + 1, end, port_);
  }

  bool fits(int descriptor) const {
    sockaddr_storage name = {};
    socklen_t size = sizeof name;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) return false;  // no socket
    if (!tcp_) return name.ss_family == AF_UNIX && size > offsetof(sockaddr_un, sun_path);
    if (name.ss_family == AF_INET6)
      return ntohs(reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port) == port_;
    return name.ss_family == AF_INET && ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port) == port_;
  }

 private:
  bool tcp_;
  std::uint16_t port_ = 0;
};

}  // namespace paceline::wire
