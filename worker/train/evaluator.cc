#include "worker/train/evaluator.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <vector>

namespace paceline {
namespace {

// Linux gives each thread its own priority. Not being allowed to lower it is impossible.
void lower_priority_of_this_thread() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, 10);
}

}  // namespace

Status run_evaluator(TaskFactory& tasks, Evaluations& evaluations, const Log& log) {
  std::unique_ptr<Task> task;  // made for the first request: most nodes never evaluate
  std::vector<float> parameters;
  for (;;) {
    PACELINE_ASSIGN_OR_RETURN(const EvaluationRequest request, evaluations.next());
    if (task == nullptr) {
      auto made = tasks.make_evaluator();
      if (made.is_ok()) {
        task = std::move(made).value();
        lower_priority_of_this_thread();  // not before: on a GPU it held what training threads may wait for
        parameters.resize(static_cast<std::size_t>(tasks.layout().size()));
      } else {
        evaluations.report({request.version, {}, made.status().message()});
        continue;
      }
    }
    const Status fetched = evaluations.fetch(request, parameters);
    // Refused, while they are open: this node came too late for that version, and trains on.
    auto metric = fetched.is_ok() ? task->evaluate(parameters) : fetched;
    // The node ends, which is why the evaluation may have; nobody waits for its report.
    if (Status closed = evaluations.closed(); !closed.is_ok()) return closed;
    // A model that has diverged (train.on_nan: skip goes on with it) has no loss that could be reported.
    if (metric.is_ok() && !std::isfinite(metric->loss_sum))
      metric = invalid_argument("the test loss is not finite");
    if (!metric.is_ok()) {
      log.warn("evaluation of version " + to_string(request.version) +
               " failed: " + metric.status().message());
    }
    evaluations.report({request.version, metric.is_ok() ? *metric : Metric{},
                        metric.is_ok() ? "" : metric.status().message()});
  }
}

}  // namespace paceline
