#include "worker/train/trainer.h"

namespace paceline {
namespace {

WorkDone done_by(const WorkerContext& t) {
  return {t.worker,   t.phases.totals(), t.contributed,  t.skipped,
          t.overruns, t.bytes_early,     t.step.reads(), t.step.server_reads()};
}

}  // namespace

Result<WorkDone> run_trainer(WorkerContext& t) {
  TrainStep step(t);
  PACELINE_ASSIGN_OR_RETURN(const Finished finished, step.run());
  // The last exchange ended with the news that nothing follows.
  if (t.step.begun()) t.phases.at(t.step.grant().clock.next());
  if (t.phases.running()) t.phases.end({finished.held, std::nullopt, step.report_time(finished.report)});
  return done_by(t);
}

WorkDone unfinished_work(WorkerContext& t) {
  if (t.phases.running()) t.phases.end_without_last();
  return done_by(t);
}

}  // namespace paceline
