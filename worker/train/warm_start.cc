#include "worker/train/warm_start.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/config/planned.h"
#include "common/params/schedule.h"
#include "worker/train/local_steps.h"

namespace paceline {

Status warm_start(const RunConfig& config, TaskFactory& tasks, std::span<float> parameters,
                  const std::function<Status()>& go_on) {
  const TrainSection& train = config.train;
  if (train.warm_start_steps == 0) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(const auto task, tasks.make_trainer(WorkerId(0, 0)));
  LocalSteps steps(train.inner_optimizer, tasks.layout());
  std::vector<float> gradient(parameters.size());
  steps.begin(parameters);
  for (std::int64_t n = 0; n < train.warm_start_steps; ++n) {
    PACELINE_RETURN_IF_ERROR(go_on());
    Step step;
    step.worker = WorkerId(0, 0);
    step.iteration = train.total_iterations + n;
    step.batch = {step.iteration * train.batch_size, train.batch_size};
    PACELINE_RETURN_IF_ERROR(task->load(step));
    PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                              task->compute(steps.parameters(), gradient, whole_at_the_end));
    if (!std::isfinite(metric.loss_sum)) {
      return invalid_argument("train.warm_start_steps: the loss of step " + std::to_string(n) +
                              " is not finite");
    }
    steps.step(gradient, learning_rate(train.inner_optimizer, Version(n), planned_versions(config)));
  }
  const std::span<const float> end = steps.parameters();
  std::copy(end.begin(), end.end(), parameters.begin());
  return Status::ok();
}

}  // namespace paceline
