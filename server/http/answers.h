// What the HTTP endpoint answers, without any socket: a request's words in, status, type and body out.
//
//   /           the page of the run, which keeps itself up to date      /healthz   200 while the loop lives
//   /data.json  what the page draws                                     /status    RunStatus as JSON
//   /events     server-sent events: the status, each second             /metrics   for Prometheus (metrics.h)
//
// Thread: one (the endpoint's).
#pragma once

#include <memory>
#include <string>

#include "common/instant.h"
#include "server/http/live_state.h"

namespace paceline::server {

struct HttpRequest {
  std::string method;
  std::string target;
  std::string host;  // the Host field; empty: none
};

struct HttpAnswer {
  unsigned code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;
  bool events = false;  // what follows are events, not a body
};

class HttpAnswers {
 public:
  // A state older than this is that of a server whose loop stands still.
  static constexpr std::chrono::seconds kHealthy{10};

  // `local`: the endpoint is an address of this machine alone. A browser that a name has been pointed there
  // for (DNS rebinding) says that name, and is refused.
  HttpAnswers(LivePages pages, bool local) : pages_(std::move(pages)), local_(local) {}

  HttpAnswer to(const HttpRequest& request, const LiveState& state, Ticks now);

 private:
  HttpAnswer from_run_directory(const std::function<Result<std::string>()>& make, const char* type) const;
  HttpAnswer data(const LiveState& state);

  LivePages pages_;
  bool local_;
  // /data.json as it was made of that state: several readers read the run directory once a second.
  Ticks data_of_;
  std::optional<HttpAnswer> data_;
};

// One event of /events, and what it says.
std::string status_event(const LiveState& state);

}  // namespace paceline::server
