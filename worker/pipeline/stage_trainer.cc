#include "worker/pipeline/stage_trainer.h"

#include <mutex>
#include <utility>
#include <vector>

#include "common/network/stage_plan.h"
#include "worker/pipeline/stage_evaluation.h"
#include "worker/pipeline/stage_runner.h"

namespace paceline {

// Thread: any.
class StageShared {
 public:
  StageShared(const RunConfig& of_run, const NetworkSpec& of_network, std::vector<StageSpec> cut,
              schedule::PipelinePlan planned)
      : config(of_run), network(of_network), chunks(std::move(cut)), plan(std::move(planned)) {}

  std::uint32_t stages() const { return config.pipeline.stages; }

  void meet(std::shared_ptr<PeerChannels> peers) {
    const std::lock_guard lock(mutex_);
    peers_ = std::move(peers);
  }
  std::shared_ptr<PeerChannels> peers() const {
    const std::lock_guard lock(mutex_);
    return peers_;
  }
  void report(const StageReport& report) {
    const std::lock_guard lock(mutex_);
    report_ = report;
  }
  StageReport report() const {
    const std::lock_guard lock(mutex_);
    return report_;
  }

  const RunConfig& config;
  const NetworkSpec& network;
  const std::vector<StageSpec> chunks;  // of all stages, in the network's order
  const schedule::PipelinePlan plan;
  schedule::PassSpans* passes = nullptr;  // set before any task is made

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<PeerChannels> peers_;
  StageReport report_;
};

namespace {

class StageTrainer final : public Task {
 public:
  StageTrainer(StageShared& shared, std::int64_t stage, std::unique_ptr<Loader> loader, BatchQueue queue,
               std::unique_ptr<StageRunner> runner)
      : shared_(shared),
        stage_(stage),
        stages_(shared.stages()),
        loader_(std::move(loader)),
        queue_(std::move(queue)),
        runner_(std::move(runner)) {}

  // The group's: that of the first stage's worker and those after it.
  Status load(const Step& step) override {
    own_ = step.batch;
    clock_ = step.clock;
    const BatchPart group{own_.position - stage_ * own_.samples, stages_ * own_.samples};
    position_ = group.position;
    PACELINE_ASSIGN_OR_RETURN(batch_, queue_.next(group));
    return Status::ok();
  }

  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom&) override {
    const std::shared_ptr<PeerChannels> peers = shared_.peers();
    if (peers == nullptr) return failed_precondition("a stage that is connected to no other");
    const Batch batch{batch_->images, batch_->labels, batch_->samples, batch_->epochs};
    PACELINE_ASSIGN_OR_RETURN(const Metric group,
                              runner_->step({clock_, position_}, parameters, batch, gradient, *peers));
    shared_.report(runner_->report());
    // Its share: those of all stages add up to the group's.
    return Metric{group.loss_sum / static_cast<double>(stages_),
                  group.correct * (stage_ + 1) / stages_ - group.correct * stage_ / stages_, own_.samples};
  }

  std::chrono::nanoseconds waited() const override { return runner_->waited(); }

  Result<Metric> evaluate(std::span<const float>) override {
    return failed_precondition("a stage's task does not evaluate");
  }

 private:
  StageShared& shared_;
  const std::int64_t stage_;
  const std::int64_t stages_;
  std::unique_ptr<Loader> loader_;
  BatchQueue queue_;
  std::unique_ptr<StageRunner> runner_;
  const MiniBatch* batch_ = nullptr;  // the queue's
  BatchPart own_{0, 1};
  Clock clock_;
  std::int64_t position_ = 0;  // of the group's mini-batch
};

}  // namespace

StageTasks::StageTasks(std::unique_ptr<StageShared> shared) : shared_(std::move(shared)) {}
StageTasks::~StageTasks() = default;

Result<std::unique_ptr<StageTasks>> StageTasks::make(const RunConfig& config, const NetworkSpec& network) {
  PACELINE_ASSIGN_OR_RETURN(std::vector<StageSpec> chunks, stages_of_run(config, network));
  PACELINE_ASSIGN_OR_RETURN(schedule::PipelinePlan plan, plan_of_run(config, network, chunks));
  return std::unique_ptr<StageTasks>(
      new StageTasks(std::make_unique<StageShared>(config, network, std::move(chunks), std::move(plan))));
}

Range StageTasks::trained_by(NodeId node) const {
  const std::uint32_t stages = shared_->stages();
  return held_by_stages(shared_->chunks, stages)[node.value % stages];
}
void StageTasks::meet(std::shared_ptr<PeerChannels> peers) { shared_->meet(std::move(peers)); }
std::vector<PeerBounds> StageTasks::peer_bounds(NodeId node) const {
  const std::uint32_t stage = node.value % shared_->stages();
  const std::vector<PeerBounds> group = StageRunner::peer_bounds(
      shared_->network, shared_->chunks, stage, shared_->plan, group_samples(shared_->config));
  std::vector<PeerBounds> bounds(node.value - stage);
  bounds.insert(bounds.end(), group.begin(), group.end());
  return bounds;
}
StageReport StageTasks::report() const { return shared_->report(); }
void StageTasks::record_passes(schedule::PassSpans* into) { shared_->passes = into; }

MakeBackend StageTasks::evaluating() const {
  return [&shared = *shared_](const NetworkSpec& network, std::int64_t samples, std::uint64_t) {
    const std::int64_t rows =
        schedule::micro_batch_sizes(group_samples(shared.config), shared.plan.micro_batches).front();
    return Result<std::unique_ptr<NetworkBackend>>(evaluate_by_stages(
        shared.config.train.backend, network, shared.chunks, samples, rows, !shared.config.pipeline.memory));
  };
}

Result<std::unique_ptr<Task>> StageTasks::make_trainer(NodeId node, const MakeLoader& make_loader) {
  const RunConfig& config = shared_->config;
  const std::uint32_t stages = shared_->stages();
  const std::uint32_t stage = node.value % stages;
  PACELINE_ASSIGN_OR_RETURN(
      auto runner,
      StageRunner::make({shared_->network, shared_->chunks, stage, node, shared_->plan, group_samples(config),
                         config.train.batch_size, config.train.backend, config.run.seed, shared_->passes}));
  std::unique_ptr<Loader> loader = make_loader(stage == 0);
  const std::int64_t group = node.value / stages;
  const std::int64_t samples = group_samples(config);
  const std::int64_t all = config.cluster.cluster().workers() * config.train.batch_size;
  BatchQueue queue = loader->open({{group * samples, samples}, all});
  return std::unique_ptr<Task>(std::make_unique<StageTrainer>(*shared_, stage, std::move(loader),
                                                              std::move(queue), std::move(runner)));
}

}  // namespace paceline
