#include "worker/foreign/foreign_stage.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/fnv1a.h"
#include "common/network/stages.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

StageReport both(const StageReport& one, const StageReport& other) {
  return {one.busy + other.busy, one.idle + other.idle,
          std::max(one.activation_bytes, other.activation_bytes),
          one.idle_for_previous + other.idle_for_previous};
}

// The loop's own layers, a micro-batch at a time: it keeps their activations, by the micro-batch's first sample.
class LoopBackend final : public StageBackend {
 public:
  LoopBackend(const ForeignStage::Parts& parts, std::int64_t divisor) : parts_(parts), divisor_(divisor) {}

  Status forward(const StagePass& pass, std::span<float> out) override {
    if (out.empty()) {  // nobody wants it again, but the loop writes it
      again_.resize(static_cast<std::size_t>(parts_.floats_out * pass.batch.size()));
      out = again_;
    }
    PACELINE_ASSIGN_OR_RETURN(forward_, parts_.forward(pass, out));
    return Status::ok();
  }
  Status evaluate(const StagePass&, std::span<float>) override {
    return failed_precondition("a loop evaluates its model in one piece");
  }
  Result<Metric> loss(const Batch&, std::int64_t) override { return forward_.metric; }
  Status backward(const StagePass& pass, std::span<const float> out_difference,
                  std::span<float> in_difference, std::span<float> gradient) override {
    return parts_.backward(pass, divisor_, out_difference, in_difference, gradient);
  }
  std::int64_t activation_bytes() const override { return forward_.bytes; }

 private:
  const ForeignStage::Parts& parts_;
  const std::int64_t divisor_;
  ForeignStage::Forward forward_;
  std::vector<float> again_;
};

}  // namespace

Result<std::unique_ptr<ForeignStage>> ForeignStage::make(const RunConfig& config, NodeId node,
                                                         std::int64_t floats, Parts parts) {
  if (parts.ends.size() != config.pipeline.stages) {
    return invalid_argument("pipeline.stages: the loop is cut into " + std::to_string(parts.ends.size()) +
                            " stages, expected " + std::to_string(config.pipeline.stages));
  }
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < parts.ends.size(); ++s) {
    if (parts.ends[s] <= begin) {
      return invalid_argument("stage " + std::to_string(s) + " has no parameters, expected some in each");
    }
    begin = parts.ends[s];
  }
  if (begin != floats) {
    return invalid_argument("the stages have " + std::to_string(begin) + " floats, expected " +
                            std::to_string(floats) + " as the layout");
  }
  return std::unique_ptr<ForeignStage>(new ForeignStage(config, node, std::move(parts)));
}

ForeignStage::ForeignStage(const RunConfig& config, NodeId node, Parts parts)
    : pipeline_(config.pipeline),
      reduces_(config.exchange.kind == ExchangeKind::kAllreduce),
      samples_max_(group_samples(config)),
      node_(node),
      stage_(node.value % config.pipeline.stages),
      parts_(std::move(parts)) {}

Range ForeignStage::trained_by(NodeId node) const {
  const std::uint32_t stage = node.value % stages();
  return {stage == 0 ? 0 : parts_.ends[stage - 1], parts_.ends[stage]};
}

void ForeignStage::meet(std::shared_ptr<PeerChannels> peers) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
}

// Of whole mini-batches; smaller ones have smaller micro-batches.
std::vector<PeerBounds> ForeignStage::peer_bounds(NodeId node) const {
  const auto micro_batches = static_cast<std::uint32_t>(pipeline_.micro_batches);
  const std::int64_t rows = schedule::micro_batch_sizes(samples_max_, micro_batches).front();
  const std::vector<schedule::Kept> between =
      schedule::plan_pipeline(pipeline_.schedule, stages(), micro_batches).bounds;
  const auto both_ways = [&](std::int64_t floats, std::uint32_t stage) {
    return PeerBounds{rows * floats, micro_batches, rows * floats,
                      static_cast<std::size_t>(between[stage].inputs)};
  };
  std::vector<PeerBounds> bounds(node.value + 2);
  if (stage_ > 0) bounds[node.value - 1] = both_ways(parts_.floats_in, stage_ - 1);
  if (stage_ + 1 < stages()) bounds[node.value + 1] = both_ways(parts_.floats_out, stage_);
  return bounds;
}

StageReport ForeignStage::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::chrono::nanoseconds ForeignStage::waited() const {
  const std::lock_guard lock(mutex_);
  return waited_;
}

std::int64_t ForeignStage::share(std::int64_t samples, std::uint32_t stage) const {
  return schedule::micro_batch_sizes(samples, stages())[stage];
}

Status ForeignStage::make_runner(std::int64_t samples) {
  if (runner_ != nullptr && samples == samples_) return Status::ok();
  if (samples < stages() || samples > samples_max_) {
    return invalid_argument("a mini-batch of " + std::to_string(samples) + " samples, expected " +
                            std::to_string(stages()) + " to " + std::to_string(samples_max_) +
                            ", train.batch_size of each stage");
  }
  // An all-reduce weighs every group alike.
  if (reduces_ && samples != samples_max_) {
    return invalid_argument("a mini-batch of " + std::to_string(samples) + " samples, expected " +
                            std::to_string(samples_max_) +
                            " with exchange.kind: allreduce (DataLoader: drop_last=True)");
  }
  if (runner_ != nullptr) before_ = both(before_, runner_->report());
  runner_.reset();
  const auto micro_batches =
      static_cast<std::uint32_t>(std::min<std::int64_t>(pipeline_.micro_batches, samples));
  const std::vector<std::int64_t> one(pipeline_.rematerialize == Rematerialize::kOff ? 0 : stages(), 1);
  schedule::PipelinePlan plan = schedule::plan_pipeline(pipeline_.schedule, stages(), micro_batches, one);
  PACELINE_RETURN_IF_ERROR(schedule::check(plan));
  StageRunner::Chunk chunk{
      {parts_.floats_in, parts_.floats_out, parts_.floats_out, parts_.floats_in},
      {0, trained_by(node_).size()},
      [this, samples](std::int64_t) {
        return Result<std::unique_ptr<StageBackend>>(std::make_unique<LoopBackend>(parts_, samples));
      },
      {}};
  PACELINE_ASSIGN_OR_RETURN(runner_, StageRunner::make({.stage = stage_,
                                                        .stages = stages(),
                                                        .node = node_,
                                                        .plan = std::move(plan),
                                                        .samples = samples,
                                                        .divisor = samples,
                                                        .chunks = {std::move(chunk)},
                                                        .passes = passes_,
                                                        .while_waiting = parts_.while_waiting}));
  samples_ = samples;
  labels_.assign(static_cast<std::size_t>(samples), Label{});
  return Status::ok();
}

Result<Metric> ForeignStage::step(const Step& step, std::int64_t samples, std::span<const float> parameters,
                                  std::span<float> gradient) {
  PACELINE_RETURN_IF_ERROR(make_runner(samples));
  std::shared_ptr<PeerChannels> peers;
  {
    const std::lock_guard lock(mutex_);
    peers = peers_;
  }
  if (peers == nullptr) return failed_precondition("a stage that is connected to no other");
  Batch batch;  // the loop has the samples
  batch.labels = labels_;
  const std::int64_t position = step.batch.position - stage_ * step.batch.samples;
  const Result<Metric> group = runner_->step({step.clock, position}, parameters, batch, gradient, *peers);
  const std::lock_guard lock(mutex_);
  waited_ = runner_->waited();
  report_ = both(before_, runner_->report());
  if (!group.is_ok()) return group.status();
  const std::int64_t own = share(samples, stage_);
  // What stages send each other is of the mean over the mini-batch; what this one contributes counts as its worker's.
  scale(gradient, static_cast<float>(samples) / static_cast<float>(own));
  // Those of all stages add up to the group's.
  return Metric{group->loss_sum * static_cast<double>(own) / static_cast<double>(samples),
                group->is_counted() ? share(group->correct, stage_) : Metric::kNotCounted, own};
}

std::uint64_t ForeignStage::fingerprint() const {
  std::string ends = "stages end at";
  for (const std::int64_t end : parts_.ends) ends += " " + std::to_string(end);
  return fnv1a(ends);
}

}  // namespace paceline
