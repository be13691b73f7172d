#include "worker/train/trainer.h"


namespace paceline {
namespace {

wire::WorkerReport report_of(const WorkerContext& t) {
  return {t.worker, t.phases.totals(), t.contributed, t.skipped, t.overruns, t.bytes_early};
}

}  // namespace

Result<wire::WorkerReport> run_trainer(WorkerContext& t) {
  TrainStep step(t);
  PACELINE_ASSIGN_OR_RETURN(const Finished finished, step.run());
  // The last exchange ended with the news that nothing follows.
  if (t.step.begun()) t.phases.at(t.step.grant().clock.next());
  if (t.phases.running()) t.phases.end({finished.held, std::nullopt, step.report_time(finished.report)});
  return report_of(t);
}

wire::WorkerReport unfinished_report(WorkerContext& t) {
  if (t.phases.running()) t.phases.end_without_last();
  return report_of(t);
}

}  // namespace paceline
