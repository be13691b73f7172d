// The authority's part of a run's trace, and the whole one made of all parts that lie in its folder: at the
// end, when the nodes have reported and so have written theirs. A run that fails does not wait for them;
// `paceline trace` makes its trace.json again.
#include <chrono>
#include <cmath>
#include <memory>
#include <string>

#include "common/trace/merge.h"
#include "common/trace/trace_file.h"
#include "server/authority/authority.h"

namespace paceline::server {

void Authority::on_checkpoint_over(Ticks now) {
  if (core_.trace() != nullptr) core_.trace()->saved(now);
  advance_end(now);
}

// No trace is no reason for a run to have failed: it is said, and the results follow.
void Authority::write_trace() {
  const auto part = std::make_shared<trace::Trace>();
  core_.trace()->add_to(*part);
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
