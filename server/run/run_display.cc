#include "server/run/run_display.h"

#include <chrono>
#include <optional>

namespace paceline::server {
namespace {

constexpr std::chrono::seconds kStatusEvery{1};
// A wait that is worth a line lasts for seconds.
constexpr std::chrono::seconds kCheckEvery{1};

}  // namespace

paceline::Status RunDisplay::open_http(Ticks now) {
  if (!setup_.is_authority() || !setup_.config.run.http) return paceline::Status::ok();
  HttpServer::Limits limits;
  limits.this_machine_only = !setup_.config.security.allow_insecure;
  PACELINE_ASSIGN_OR_RETURN(
      http_, HttpServer::start(*setup_.config.run.http, setup_.options.pages, {status_(now), now}, limits));
  setup_.log.info("the run is shown at http://" + http_->address() + "/");
  return paceline::Status::ok();
}

void RunDisplay::update(bool trains, Ticks now) {
  const bool begins = trains && !training_shown_;
  if (is_shown() && (begins || now >= next_status_)) show(trains, now);
}

void RunDisplay::end(Ticks now) {
  for (const std::string& line : stalls_.check({}, now)) setup_.log.info(line);
  if (is_shown()) show(/*trains=*/false, now);
  display_.end();
}

void RunDisplay::show(bool trains, Ticks now) {
  training_shown_ = trains;
  next_status_ = now + (http_ ? kStatusEvery : display_.every());
  const RunStatus shown = status_(now);
  if (const auto fault = http_ ? http_->fault() : std::nullopt) {
    setup_.log.error("the run is not shown any more at http://" + http_->address() + "/: " + *fault);
    http_.reset();
  }
  // First for those who may ask because of what the display then says.
  if (http_) http_->publish({shown, now});
  display_.show(shown, now);
}

void RunDisplay::check_stalls(const std::function<std::vector<Wait>()>& waits, Ticks now) {
  if (now < next_check_) return;
  next_check_ = now + kCheckEvery;
  for (const std::string& line : stalls_.check(waits(), now)) setup_.log.info(line);
}

void RunDisplay::explain(const std::vector<Wait>& waits, Ticks now) {
  const std::vector<std::string> lines = stalls_.explain(waits, now);
  if (lines.empty()) setup_.log.warn("asked what it waits for: for nothing");
  for (const std::string& line : lines) setup_.log.warn("asked what it waits for: " + line);
}

}  // namespace paceline::server
