#include "server/authority/run_files.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "common/trace/merge.h"
#include "common/trace/trace_file.h"

namespace paceline::server {

RunFiles::RunFiles(const RunConfig& config, RunCore& core, const RunOutcome& state, RunRecord& record,
                   Background& background, const Log& log, std::function<void(const Status& written)> filed)
    : config_(config),
      core_(core),
      state_(state),
      record_(record),
      background_(background),
      log_(log),
      filed_(std::move(filed)) {}

void RunFiles::write() {
  trace::DecisionLog* const decisions = core_.trace();
  // Of a generation that is reconfigured no trace is kept.
  decisions != nullptr && !state_.reconfigures() ? write_trace(*decisions) : write_results();
}

void RunFiles::write_results() {
  filed_as_ = state_.kind();
  background_.run(
      record_.writer(core_.engine(), state_.status(), state_.result().message()),
      [this](const Status& written, Ticks) {
        if (written.is_ok() && filed_as_ != state_.kind()) return write_results();
        filed_(written);
      },
      needed_here());
}

Background::Here RunFiles::needed_here() {
  return [this](const Status& here, const Status& counts) {
    if (!counts.is_ok() || here.is_ok()) return;
    log_.warn("what the run is for is not whole on this replica's disk: " + here.message());
    if (missing_.is_ok()) missing_ = here;
  };
}

// No trace is no reason for a run to have failed: it is said, and the results follow.
void RunFiles::write_trace(trace::DecisionLog& decisions) {
  const auto part = std::make_shared<trace::Trace>();
  decisions.add_to(*part);
  // Seconds count as in curve.csv: of a run that was gone on with, from before this generation's first grant.
  if (part->first_grant) {
    const double before = record_.seconds(*part->first_grant);
    part->first_grant = *part->first_grant + std::chrono::nanoseconds(-std::llround(before * 1e9));
  }
  part->processes.push_back(trace::this_process(kAuthority));
  const auto counts = std::make_shared<std::optional<TraceCounts>>();
  record_.traced(counts);
  background_.run(
      [run = std::filesystem::path(config_.run.out), part, counts] {
        PACELINE_RETURN_IF_ERROR(trace::write_trace(run / trace::kAuthorityPart, *part));
        PACELINE_ASSIGN_OR_RETURN(const trace::Trace whole, trace::merge_parts(run));
        *counts = TraceCounts{whole.events(), whole.left_out()};
        return Status::ok();
      },
      [this](const Status&, Ticks) { write_results(); },
      [this, counts](const Status& here, const Status&) {
        if (!here.is_ok()) return log_.warn("no trace: " + here.message());
        log_.info("trace.json has " + std::to_string((*counts)->events) + " events" +
                  ((*counts)->left_out > 0 ? "; " + std::to_string((*counts)->left_out) +
                                                 " older ones are left out (run.trace_events)"
                                           : ""));
      });
}

}  // namespace paceline::server
