// One HTTP/1.1 GET, for `paceline top` and `paceline doctor`.
//
// Thread: any.
#pragma once

#include <chrono>
#include <string>

#include "common/status.h"

namespace paceline {

// The body of the answer at `target` ("/status") of the server at "host:port". Errors: kUnavailable nobody is
// there (any more): refused, reset or closed; kDeadlineExceeded it is silent for `timeout`, or the way there
// is not open; kInvalidArgument no address; kDataLoss the answer is no HTTP, or larger than 8 MiB; kNotFound
// there is no such host, or no such page; kFailedPrecondition any other answer but 200.
Result<std::string> http_get(const std::string& address, const std::string& target,
                             std::chrono::milliseconds timeout);

// When that answer was made, by the clock of who made it: whole seconds. Errors: those of http_get(), and
// kDataLoss where the answer has no date.
Result<std::chrono::system_clock::time_point> http_date_of(const std::string& address,
                                                           const std::string& target,
                                                           std::chrono::milliseconds timeout);

}  // namespace paceline
