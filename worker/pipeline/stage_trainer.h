// StageTrainer: the task of a node that is a stage of a pipeline. A group is as many nodes in a row as there are
// stages; its mini-batch is those of its workers, one after the other, which every stage draws by itself: the first
// one with its images, the others for labels and the keys of dropout.
//
// What a worker contributes is for its own samples, and so is what it reports. A stage's gradient of the group's
// mini-batch is divided by the samples of one worker: a mean over all workers, of which each group has one that trains
// this stage, is then the mean over all samples.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"
#include "common/task/task.h"
#include "worker/data/loader.h"
#include "worker/model/backend.h"

namespace paceline {

// What the tasks of a node have in common.
class StageShared;

class StageTasks {
 public:
  // `network` outlives it, and so do the tasks' `config`. Errors: those of stages_of_run().
  static Result<std::unique_ptr<StageTasks>> make(const RunConfig& config, const NetworkSpec& network);
  ~StageTasks();

  Range trained_by(NodeId node) const;
  void meet(std::shared_ptr<PeerChannels> peers);
  // As TaskFactory::peer_bounds(): the stages beside it, of one step each.
  std::vector<PeerBounds> peer_bounds(NodeId node) const;
  StageReport report() const;
  // As TaskFactory::record_passes().
  void record_passes(schedule::PassSpans* into);

  // Makes a loader of mini-batches, with their images or without.
  using MakeLoader = std::function<std::unique_ptr<Loader>(bool with_images)>;
  // Errors: those of StageRunner::make().
  Result<std::unique_ptr<Task>> make_trainer(NodeId node, const MakeLoader& make_loader);
  // Makes what evaluates the whole network, a stage at a time (stage_evaluation.h).
  MakeBackend evaluating() const;

 private:
  explicit StageTasks(std::unique_ptr<StageShared> shared);
  std::unique_ptr<StageShared> shared_;
};

}  // namespace paceline
