// What an endpoint needs before ZeroMQ may bind it: ZeroMQ binds only to numbers and interface names, while a
// run's configuration names hosts; and it silently takes over an ipc:// path that another process serves.
//
// Thread: any. resolve_for_bind() may wait for the name service.
#pragma once

#include <string>

#include "common/status.h"

namespace paceline::wire {

// "tcp://name:port" with the name replaced by its first IPv4 address. Errors: kInvalidArgument the endpoint
// has not that form; kUnavailable the name is not known.
Result<std::string> resolve_for_bind(const std::string& endpoint);

// Whether somebody accepts connections at "ipc://path" now. False for any other endpoint.
bool ipc_is_served(const std::string& endpoint);

}  // namespace paceline::wire
