// What an endpoint needs before ZeroMQ may bind it: ZeroMQ binds only to numbers and interface names, while a
// run's configuration names hosts; and it silently removes what lies at an ipc:// path, be it an ordinary
// file or the socket that another process serves.
//
// Thread: any. resolve_for_bind() may wait for the name service.
#pragma once

#include <string>

#include "common/status.h"

namespace paceline::wire {

// "tcp://name:port" with the name replaced by its first IPv4 address. Errors: kInvalidArgument the endpoint
// has not that form; kUnavailable the name is not known.
Result<std::string> resolve_for_bind(const std::string& endpoint);

// Whether "ipc://path" is there to be bound: ZeroMQ removes whatever lies at the path first, without a word.
// A socket that nobody serves is what a killed server left behind. OK for any other endpoint.
// Errors: kInvalidArgument something else than a socket lies there; kUnavailable somebody accepts connections
// there now.
[[nodiscard]] Status check_ipc_path(const std::string& endpoint);

}  // namespace paceline::wire
