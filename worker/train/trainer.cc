#include "worker/train/trainer.h"

#include <optional>
#include <utility>
#include <variant>

#include "worker/train/read_parameters.h"

namespace paceline {
namespace {

wire::WorkerReport report_of(const Training& t) {
  return {t.worker, t.phases.totals(), t.iterations, t.skipped, t.overruns, t.bytes_early};
}

}  // namespace

Result<wire::WorkerReport> run_trainer(Training& t) {
  Finished finished;
  std::optional<Clock> last;
  for (;;) {
    PACELINE_RETURN_IF_ERROR(land_ahead(t));
    PACELINE_ASSIGN_OR_RETURN(const Instruction next, t.exchange.next_instruction(t.worker.thread));
    const auto* const granted = std::get_if<Granted>(&next);
    if (granted == nullptr) {
      finished = std::get<Finished>(next);
      break;
    }
    const Clock clock = granted->grant.clock;
    if (last && clock <= *last) {
      return invalid_argument("worker " + to_string(t.worker) + ": granted clock " + to_string(clock) +
                              ", expected one above " + to_string(*last));
    }
    last = clock;
    if (Status stepped = train_step(t, *granted); !stepped.is_ok()) {
      return std::move(stepped).with_context("worker " + to_string(t.worker) + " at clock " +
                                             to_string(clock));
    }
    if (t.shown != nullptr) t.shown->show(t.phases.times());
  }
  // The last exchange ended with the news that nothing follows.
  if (last) t.phases.at(last->next());
  if (t.phases.running()) t.phases.end({finished.held, std::nullopt, report_time(t, finished.report)});
  return report_of(t);
}

wire::WorkerReport unfinished_report(Training& t) {
  if (t.phases.running()) t.phases.end_without_last();
  return report_of(t);
}

}  // namespace paceline
