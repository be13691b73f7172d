#include "server/http/answers.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "server/http/metrics.h"

namespace paceline::server {
namespace {

HttpAnswer text(unsigned code, std::string body, const char* type = "text/plain; charset=utf-8") {
  return {code, type, std::make_shared<const std::string>(std::move(body))};
}

// Whether a Host field names this machine as only it can: by number, or as localhost.
bool names_this_machine(std::string_view host) {
  if (host.starts_with("[")) return host.starts_with("[::1]");
  host = host.substr(0, host.rfind(':'));
  return host == "localhost" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

HttpAnswer health(const LiveState& state, Ticks now) {
  const auto age = now - state.made;
  if (age <= HttpAnswers::kHealthy) return text(200, "ok\n");
  char why[96];
  std::snprintf(why, sizeof why, "the server's loop has not moved for %.1f s\n", to_seconds(age));
  return text(503, why);
}

constexpr const char* kPaths = "/, /data.json, /events, /healthz, /metrics, /status";

}  // namespace

HttpAnswer HttpAnswers::to(const HttpRequest& request, const LiveState& state, Ticks now) {
  if (request.method != "GET" && request.method != "HEAD") {
    return text(405, "got a method that changes things, expected GET or HEAD\n");
  }
  if (local_ && !request.host.empty() && !names_this_machine(request.host)) {
    return text(403, "the Host field names another machine, expected localhost or 127.x.y.z\n");
  }
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/healthz") return health(state, now);
  if (path == "/status") return text(200, to_json(state.status) + "\n", "application/json");
  if (path == "/metrics") {
    return text(200, metrics_text(state.status, to_seconds(now - state.made)),
                "text/plain; version=0.0.4; charset=utf-8");
  }
  if (path == "/events") {
    HttpAnswer answer = text(200, status_event(state), "text/event-stream");
    answer.events = request.method == "GET";
    return answer;
  }
  if (path == "/") return from_run_directory(pages_.page, "text/html; charset=utf-8");
  if (path == "/data.json") return data(state);
  return text(404, std::string("no such page, expected one of ") + kPaths + "\n");
}

HttpAnswer HttpAnswers::from_run_directory(const std::function<Result<std::string>()>& make,
                                           const char* type) const {
  if (!make) return text(404, "this program has no page; /status has the numbers\n");
  Result<std::string> made = make();
  if (!made.is_ok()) return text(503, made.status().message() + "\n");
  return text(200, std::move(made).value(), type);
}

HttpAnswer HttpAnswers::data(const LiveState& state) {
  if (!data_ || data_of_ != state.made) {
    data_ = from_run_directory(pages_.data, "application/json");
    data_of_ = state.made;
  }
  return *data_;
}

std::string status_event(const LiveState& state) {
  return "event: status\ndata: " + to_json(state.status) + "\n\n";
}

}  // namespace paceline::server
