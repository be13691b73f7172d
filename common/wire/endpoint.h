// What an endpoint needs before ZeroMQ may bind it, or connect to it: ZeroMQ binds only to numbers and interface
// names, while a run's configuration names hosts; a socket of its speaks IPv6 only when it is told to; and it
// silently removes what lies at an ipc:// path, be it an ordinary file or the socket that another process
// serves.
//
// Thread: any. resolve() and needs_ipv6() may wait for the name service.
#pragma once

#include <string>

#include "common/status.h"

namespace paceline::wire {

// "tcp://name:port" with the name replaced by its first IPv4 address or, where it has none, its first IPv6 one
// in brackets. Servers and nodes alike: what one binds the others find. Errors: kInvalidArgument the endpoint has
// not that form; kUnavailable the name is not known.
Result<std::string> resolve(const std::string& endpoint);

// Whether a socket must speak IPv6 to connect there: to an address in brackets, or a name that has no other.
bool needs_ipv6(const std::string& endpoint);

// Whether "ipc://path" is there to be bound: ZeroMQ removes whatever lies at the path first, without a word.
// A socket that nobody serves is what a killed server left behind. OK for any other endpoint.
// Errors: kInvalidArgument something else than a socket lies there; kUnavailable somebody accepts connections
// there now.
[[nodiscard]] Status check_ipc_path(const std::string& endpoint);

}  // namespace paceline::wire
