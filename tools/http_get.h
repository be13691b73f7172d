// One HTTP/1.1 GET, for `paceline top`.
//
// Thread: any.
#pragma once

#include <chrono>
#include <string>

#include "common/status.h"

namespace paceline {

// The body of the answer at `target` ("/status") of the server at "host:port". Errors: kUnavailable it cannot
// be reached, is silent for `timeout`, or says so; kInvalidArgument no address; kDataLoss the answer is no
// HTTP, or larger than 8 MiB; kNotFound the server has no such page.
Result<std::string> http_get(const std::string& address, const std::string& target,
                             std::chrono::milliseconds timeout);

}  // namespace paceline
