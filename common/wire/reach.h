// Whether somebody listens at an endpoint, and if not, why: what ZeroMQ, which tries again and again without a
// word, does not tell. For a node that gets no answer, and for `paceline doctor`.
//
//   refused       the host is there, nobody listens at the port    start the server, or wait
//   unreachable   no way to the host                               routes, firewall
//   unknown name  no address to try                                DNS, /etc/hosts
//   silent        nothing comes back                               a firewall, or a host that is off
//
// Thread: any.
#pragma once

#include <chrono>
#include <string>

namespace paceline::wire {

enum class Reach { kAccepted, kRefused, kUnreachable, kUnknownName, kSilent };

struct Reachability {
  Reach how = Reach::kSilent;
  std::string address = {};              // in numbers, without brackets; empty: ipc, or an unknown name
  std::string reason = {};               // the system's words; empty: accepted
  std::chrono::nanoseconds found_in{0};  // the name
  std::chrono::nanoseconds took{0};      // the connection, or its failure
};

// Connects to "tcp://host:port" or "ipc://path" and lets go of it at once. Waits for the name service, and then
// at most `within`. To a server it is a stranger that says nothing.
Reachability reach(const std::string& endpoint, std::chrono::milliseconds within);

// For a person: "it refuses the connection (10.0.0.5): no server listens there yet".
std::string in_words(const Reachability& reached);

}  // namespace paceline::wire
