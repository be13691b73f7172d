// What the HTTP endpoint shows: the newest status of the run, and when it was made. Made by the server's
// loop, read by the endpoint's thread, changed by nobody.
#pragma once

#include <functional>
#include <string>

#include "common/instant.h"
#include "common/live/run_status.h"
#include "common/status.h"

namespace paceline::server {

struct LiveState {
  RunStatus status;
  Ticks made;
};

// The page of the run and the numbers that it draws, out of the run directory (common/page/live_page.h).
// Called on the endpoint's thread alone. Without them there is no page.
struct LivePages {
  std::function<Result<std::string>()> page = {};
  std::function<Result<std::string>()> data = {};
};

}  // namespace paceline::server
