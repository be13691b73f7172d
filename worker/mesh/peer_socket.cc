#include "worker/mesh/peer_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "common/config/local_endpoint.h"
#include "common/host_port.h"

namespace paceline::mesh {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> resolve(const HostPort& at, int type, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = type;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found);
  if (error != 0) return unavailable(at.host + ": " + gai_strerror(error));
  return Addresses(found);
}

Descriptor socket_of(const addrinfo& address) {
  return Descriptor(
      socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// Host as a number, and port.
Result<HostPort> name_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  const int error = getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return unavailable(std::string("getnameinfo: ") + gai_strerror(error));
  return HostPort{host.data(), port.data(), std::string(host.data()).find(':') != std::string::npos};
}

// Of one end, which `name` gives the address of.
Result<HostPort> end_name(const Descriptor& socket, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (name(socket.get(), any, &length) != 0) return unavailable("an end's name: " + system_error(errno));
  return name_of(any, length);
}

Result<HostPort> own_name(const Descriptor& socket) { return end_name(socket, getsockname); }

bool stays_on_this_machine(const Descriptor& connection) {
  const auto own = own_name(connection);
  const auto other = end_name(connection, getpeername);
  return own.is_ok() && other.is_ok() && own->host == other->host;
}

// Small messages at once. Buffers are the system's, which grows them to the length of the way; within one machine they
// would then hold more than the processors' caches, and everything went through memory twice.
void set_up(const Descriptor& connection) {
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(connection.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  if (!stays_on_this_machine(connection)) return;
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferWithinMachine,
             sizeof kSendBufferWithinMachine);
}

Status unconnected(int error) {
  const bool refused = error == ECONNREFUSED || error == ECONNRESET;
  return refused ? not_found(system_error(error)) : unavailable(system_error(error));
}

}  // namespace

std::string system_error(int error) { return std::strerror(error); }

Result<std::string> address_towards(const std::string& server) {
  const HostPort at = host_and_port_of_tcp(server);
  if (at.host.empty()) return std::string("127.0.0.1");
  const auto failed = [&server](const std::string& why) {
    return unavailable("the way to " + server + ": " + why);
  };
  PACELINE_ASSIGN_OR_RETURN(const Addresses found, resolve(at, SOCK_DGRAM, 0));
  std::string loopback;
  std::string why;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    const Descriptor socket = socket_of(*each);
    // Of a datagram socket it sends nothing, but chooses the way.
    if (!socket.is_open() || connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0) {
      why = system_error(errno);
      continue;
    }
    PACELINE_ASSIGN_OR_RETURN(const HostPort own, own_name(socket));
    if (!is_loopback_number(own.host)) return own.host;
    if (loopback.empty()) loopback = own.host;
  }
  return loopback.empty() ? Result<std::string>(failed(why)) : Result<std::string>(loopback);
}

Result<std::string> number_of(const std::string& host) {
  PACELINE_ASSIGN_OR_RETURN(const Addresses found, resolve({host, "", false}, SOCK_STREAM, 0));
  std::string number;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    PACELINE_ASSIGN_OR_RETURN(const HostPort own, name_of(each->ai_addr, each->ai_addrlen));
    if (number.empty() || is_loopback_number(number)) number = own.host;
  }
  return number;
}

Result<Listening> listen_at(const std::string& address, const Ports& ports) {
  std::string where = "cannot listen at " + address;
  if (ports.first > 0)
    where += ", ports " + std::to_string(ports.first) + " to " + std::to_string(ports.last);
  for (std::uint32_t port = ports.first;; ++port) {
    PACELINE_ASSIGN_OR_RETURN(const Addresses found, resolve({address, std::to_string(port), false},
                                                             SOCK_STREAM, AI_PASSIVE | AI_NUMERICHOST));
    Descriptor socket = socket_of(*found);
    const int on = 1;  // what is left there of connections that have ended is in nobody's way
    if (port > 0 && socket.is_open()) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.is_open() && bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
        listen(socket.get(), SOMAXCONN) == 0) {
      PACELINE_ASSIGN_OR_RETURN(const HostPort own, own_name(socket));
      return Listening{std::move(socket), own.written_host() + ":" + own.port};
    }
    const int error = errno;
    if (error != EADDRINUSE || port >= ports.last) return unavailable(where + ": " + system_error(error));
  }
}

Result<Descriptor> connect_to(const std::string& endpoint, const StopFlag& stop,
                              std::chrono::milliseconds within) {
  PACELINE_ASSIGN_OR_RETURN(const Addresses found,
                            resolve(host_and_port(endpoint), SOCK_STREAM, AI_NUMERICHOST));
  Descriptor connection = socket_of(*found);
  if (!connection.is_open()) return unavailable(system_error(errno));
  if (connect(connection.get(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return unconnected(errno);
    std::array<pollfd, 2> waits = {{{connection.get(), POLLOUT, 0}, {stop.descriptor(), POLLIN, 0}}};
    const int ready = poll(waits.data(), waits.size(), static_cast<int>(within.count()));
    int error = ready < 0 ? errno : 0;
    if (stop.is_set()) return aborted("stopped");
    if (ready == 0) return deadline_exceeded("no answer within " + std::to_string(within.count()) + " ms");
    socklen_t length = sizeof error;
    if (ready > 0) getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return unconnected(error);
  }
  set_up(connection);
  return connection;
}

std::optional<std::chrono::milliseconds> unacknowledged(int connection) {
  tcp_info info = {};
  socklen_t length = sizeof info;
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  if (info.tcpi_unacked == 0) return std::nullopt;
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

Result<Descriptor> accept_from(const Descriptor& listening) {
  Descriptor connection(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.is_open()) {
    set_up(connection);
    return connection;
  }
  // Of a connection that was given up before it was taken, too.
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || errno == EPROTO) return connection;
  return unavailable("accept: " + system_error(errno));
}

}  // namespace paceline::mesh
