// What the mesh (mesh.h) needs of TCP sockets. All of them are non-blocking, and none is inherited by a child.
//
// Thread: any, one socket of one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/files/descriptor.h"
#include "common/status.h"
#include "worker/mesh/stop_flag.h"

namespace paceline::mesh {

// Of a connection whose ends are on one machine, bytes; the system takes twice of it, with what it needs beside them.
inline constexpr int kSendBufferWithinMachine = 128 * 1024;

// A listening socket and where others reach it, "10.0.0.3:40123".
struct Listening {
  Descriptor socket;
  std::string endpoint;
};

// The address, "10.0.0.3" or "fe80::1", from which this machine reaches the host of `server`, a
// "tcp://host:port"; of another transport the loopback's. Where the host has several, as with a line of /etc/hosts
// that leads to loopback, one that other machines reach goes first. Nothing is sent. Errors: kUnavailable, naming
// `server`.
Result<std::string> address_towards(const std::string& server);

// The address of `host`, a name or a number; of several one that other machines reach goes first. Errors: kUnavailable.
Result<std::string> number_of(const std::string& host);

struct Ports {
  std::uint16_t first = 0;  // 0: the system chooses one
  std::uint16_t last = 0;   // >= first
};
// Listens at `address`, a number of this machine's, at the first free one of these ports. Errors: kUnavailable, naming
// both.
Result<Listening> listen_at(const std::string& address, const Ports& ports = {});

// Connects to "10.0.0.3:40123", for at most so long. Errors: kNotFound where that machine says that nobody listens;
// kUnavailable, kDeadlineExceeded, with the reason, which may be this machine's; kAborted stopped.
Result<Descriptor> connect_to(const std::string& endpoint, const StopFlag& stop,
                              std::chrono::milliseconds within);

// How long ago the other machine has last acknowledged anything, while some of what has left for it is not;
// nullopt: all is. What waits here because the peer reads nothing has not left.
std::optional<std::chrono::milliseconds> unacknowledged(int connection);

// The next connection that waits; not open when there is none. Errors: kUnavailable.
Result<Descriptor> accept_from(const Descriptor& listening);

// "Connection refused"
std::string system_error(int error);

}  // namespace paceline::mesh
