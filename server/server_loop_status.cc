// How the run goes, for whoever looks: made once a second where somebody may look, for the terminal and for
// run.http. What the authority knows it says itself; the loop adds what only it has.
#include <utility>

#include "common/config/names.h"
#include "common/config/shown_name.h"
#include "common/ticks.h"
#include "server/server_loop.h"

namespace paceline::server {
namespace {

constexpr std::chrono::seconds kStatusEvery{1};

}  // namespace

RunStatus ServerLoop::status(Ticks now) const {
  RunStatus status;
  if (authority_) {
    status = authority_->status(last_seen(now), now);
  } else {
    // A resumed run whose checkpoint is not chosen yet: its numbers are in there.
    status.run = shown_name(config_.run);
    status.policy = name_of(config_.sync.policy);
    status.state = "resuming";
    status.iterations_total = config_.train.total_iterations;
    status.workers_total = config_.cluster.cluster().workers();
    if (choice_ && !choice_->missing().empty()) {
      for (Wait& wait : waits(now)) status.waits.push_back(std::move(wait.text));
    }
  }
  if (ended_) {
    status.state = "over";
    if (status.outcome.empty()) status.outcome = result_.is_ok() ? "ok" : result_.message();
  }
  status.stall = stalls_.standing();
  const wire::TrafficCounters& counted = router_->counters();
  status.server = {counted.push_bytes, counted.parameter_bytes, counted.shared_bytes,
                   counted.messages_received, counted.malformed};
  status.moved = moved();
  return status;
}

Traffic ServerLoop::moved() const {
  const wire::TrafficCounters& counted = router_->counters();
  Traffic sum{counted.push_bytes, counted.parameter_bytes, counted.shared_bytes};
  for (const auto& [shard, traffic] : moved_elsewhere_) sum += traffic;
  return sum;
}

Status ServerLoop::open_http(Ticks now) {
  if (!is_authority() || !config_.run.http) return Status::ok();
  HttpServer::Limits limits;
  limits.this_machine_only = !config_.security.allow_insecure;
  PACELINE_ASSIGN_OR_RETURN(http_,
                            HttpServer::start(*config_.run.http, options_.pages, {status(now), now}, limits));
  log_.info("the run is shown at http://" + http_->address() + "/");
  return Status::ok();
}

void ServerLoop::show_status(Ticks now) {
  training_shown_ = authority_ && authority_->training() && !ended_;
  next_status_ = now + (http_ ? kStatusEvery : display_.every());
  if (!http_ && display_.of_training_alone() && !training_shown_) return;
  const RunStatus shown = status(now);
  if (const auto fault = http_ ? http_->fault() : std::nullopt) {
    log_.error("the run is not shown any more at http://" + http_->address() + "/: " + *fault);
    http_.reset();
  }
  // First for those who may ask because of what the display then says.
  if (http_) http_->publish({shown, now});
  display_.show(shown, now);
}

}  // namespace paceline::server
