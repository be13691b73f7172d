#include "worker/pipeline/stage_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/params/vector_ops.h"
#include "common/ticks.h"

namespace paceline {

using schedule::PipelineRow;

namespace {

constexpr std::chrono::milliseconds kLookEvery(100);

}  // namespace

StageRunner::StageRunner(Stage stage)
    : of_(std::move(stage)),
      rows_(of_.plan.stages.at(of_.stage)),
      recomputed_(schedule::is_recomputed(rows_)),
      held_(of_.plan.micro_batches),
      part_(static_cast<std::size_t>(of_.plan.micro_batches > 1 ? of_.parameters : 0)),
      norms_(of_.norms),
      losses_(of_.plan.micro_batches) {}

Result<std::unique_ptr<StageRunner>> StageRunner::make(Parts parts) {
  const NetworkSpec& network = parts.network;
  const StageSpec& own = parts.stages.at(parts.stage);
  const StageFloats floats{floats_of(network, own.inputs), floats_of(network, own.outputs),
                           floats_of(network, only_trained(network, own.outputs)),
                           parts.stage == 0 ? 0 : floats_of(network, only_trained(network, own.inputs))};
  return make(Stage{parts.stage, static_cast<std::uint32_t>(parts.stages.size()), parts.node,
                    std::move(parts.plan), parts.samples, parts.divisor, own.parameters.size(), floats,
                    [&network, own, kind = parts.backend, seed = parts.seed](std::int64_t samples) {
                      return make_stage_backend(kind, network, own, samples, seed);
                    },
                    MeasuredNorms(network, own, parts.samples, parts.divisor), parts.passes});
}

Result<std::unique_ptr<StageRunner>> StageRunner::make(Stage stage) {
  std::unique_ptr<StageRunner> runner(new StageRunner(std::move(stage)));
  PACELINE_RETURN_IF_ERROR(runner->make_backends());
  return runner;
}

StageRunner::Hears StageRunner::hears(const NetworkSpec& network, const std::vector<StageSpec>& stages,
                                      std::uint32_t stage, const schedule::PipelinePlan& plan,
                                      std::int64_t samples) {
  const std::int64_t rows = schedule::micro_batch_sizes(samples, plan.micro_batches).front();  // the largest
  const auto floats = [&](const std::vector<std::size_t>& values) {
    return rows * floats_of(network, values);
  };
  const auto back = [&](const std::vector<std::size_t>& values) {
    return floats(only_trained(network, values));
  };
  const auto between = [&](std::uint32_t of) { return static_cast<std::size_t>(plan.bounds[of].inputs); };
  const StageSpec& own = stages[stage];
  Hears hears;
  if (stage > 0) hears.front = {floats(own.inputs), plan.micro_batches, back(own.inputs), between(stage - 1)};
  if (stage + 1 < stages.size())
    hears.behind = {back(own.outputs), plan.micro_batches, floats(own.outputs), between(stage)};
  return hears;
}

Status StageRunner::make_backends() {
  begins_.assign(1, 0);
  for (const std::int64_t size : schedule::micro_batch_sizes(of_.samples, of_.plan.micro_batches)) {
    PACELINE_ASSERT(size > 0, "an empty micro-batch");
    begins_.push_back(begins_.back() + size);
  }
  const std::int64_t kept = schedule::kept(rows_).activations;
  for (std::int64_t i = 0; i < kept; ++i) {
    PACELINE_ASSIGN_OR_RETURN(auto backend, of_.make_backend(begins_[1]));
    backends_.push_back(std::move(backend));
    free_.push_back(static_cast<std::size_t>(i));
  }
  return Status::ok();
}

Result<Metric> StageRunner::step(const At& at, std::span<const float> parameters, const Batch& batch,
                                 std::span<float> gradient, PeerChannels& channels) {
  PACELINE_ASSERT(batch.size() == of_.samples && std::ssize(gradient) == of_.parameters &&
                      parameters.size() == gradient.size(),
                  std::to_string(batch.size()) + " samples, " + std::to_string(gradient.size()) + " floats");
  at_ = at;
  parameters_ = parameters;
  batch_ = &batch;
  gradient_ = gradient;
  channels_ = &channels;
  has_gradient_ = false;
  if (norms_) norms_->begin();
  metric_ = {};
  waited_ = waited_for_previous_ = {};
  const Ticks began = steady_now();
  for (const PipelineRow& row : rows_) {
    Status done;
    pass_began_ = steady_now();
    switch (row.pass) {
      case PipelineRow::Pass::kForward:
        done = forward(row.micro_batch);
        break;
      case PipelineRow::Pass::kRecompute:
        done = recompute(row.micro_batch);
        break;
      case PipelineRow::Pass::kBackward:
        done = backward(row.micro_batch);
        break;
    }
    PACELINE_RETURN_IF_ERROR(done);
    if (of_.passes != nullptr) {
      of_.passes->add({pass_began_, steady_now() - pass_began_, at_.clock, row});
    }
  }
  if (norms_) norms_->write(gradient_);
  report_.idle += waited_;
  report_.idle_for_previous += waited_for_previous_;
  report_.busy += steady_now() - began - waited_;
  return metric_;
}

Batch StageRunner::rows(std::uint32_t micro_batch) const {
  const auto begin = static_cast<std::size_t>(begins_[micro_batch]);
  const auto size = static_cast<std::size_t>(begins_[micro_batch + 1]) - begin;
  const auto image = static_cast<std::size_t>(of_.floats.in);
  Batch batch;
  if (is_first()) batch.images = batch_->images.subspan(begin * image, size * image);
  batch.labels = batch_->labels.subspan(begin, size);
  if (!batch_->sample_ids.empty()) batch.sample_ids = batch_->sample_ids.subspan(begin, size);
  if (!batch_->epochs.empty()) batch.epochs = batch_->epochs.subspan(begin, size);
  return batch;
}

std::string StageRunner::name_of_stage(std::uint32_t stage, NodeId node) const {
  return "stage " + std::to_string(stage) + " (node " + to_string(node) + ")";
}

Result<PeerMessage> StageRunner::await(NodeId node) {
  if (!of_.look) return channels_->receive(node);
  for (;;) {
    Result<PeerMessage> message = channels_->receive_within(node, kLookEvery);
    if (message.status().code() != StatusCode::kDeadlineExceeded) return message;
    PACELINE_RETURN_IF_ERROR(of_.look());
  }
}

Result<PeerMessage> StageRunner::receive(bool backward, std::uint32_t micro_batch, std::int64_t floats_each) {
  const std::uint32_t stage = backward ? of_.stage + 1 : of_.stage - 1;
  const NodeId node(backward ? of_.node.value + 1 : of_.node.value - 1);
  const Ticks began = steady_now();
  Result<PeerMessage> message = await(node);
  pass_began_ = steady_now();
  const auto took = pass_began_ - began;
  waited_ += took;
  if (!backward) waited_for_previous_ += took;
  if (!message.is_ok()) return Status(message.status()).with_context(name_of_stage(stage, node));
  const std::int64_t floats = floats_each * rows(micro_batch).size();
  if (message->clock != at_.clock.value || message->position != at_.position ||
      message->micro_batch != micro_batch || message->backward != (backward ? 1U : 0U) ||
      message->samples != of_.samples || static_cast<std::int64_t>(message->floats.size()) != floats) {
    return failed_precondition(
        name_of_stage(stage, node) + ": micro-batch " + std::to_string(message->micro_batch) + " of clock " +
        std::to_string(message->clock) + " at sample " + std::to_string(message->position) + " of " +
        std::to_string(message->samples) + ", " + std::to_string(message->floats.size()) +
        " floats, expected micro-batch " + std::to_string(micro_batch) + " of clock " + to_string(at_.clock) +
        " at sample " + std::to_string(at_.position) + " of " + std::to_string(of_.samples) + ", " +
        std::to_string(floats));
  }
  return message;
}

Status StageRunner::send(NodeId to, PeerMessage message) {
  const std::uint32_t stage = to.value > of_.node.value ? of_.stage + 1 : of_.stage - 1;
  return channels_->send(to, std::move(message)).with_context(name_of_stage(stage, to));
}

void StageRunner::keep(Held& held, std::int64_t bytes) {
  activations_ += bytes - held.bytes;
  held.bytes = bytes;
  report_.activation_bytes = std::max(report_.activation_bytes, activations_);
}

Status StageRunner::compute_forward(std::uint32_t micro_batch, bool is_kept, std::span<float> out) {
  Held& held = held_[micro_batch];
  PACELINE_ASSERT(!free_.empty(), "more micro-batches than the plan keeps");
  held.backend = free_.back();
  free_.pop_back();
  const Batch batch = rows(micro_batch);
  StageBackend& backend = *backends_[held.backend];
  const std::span<const float> in = is_first() ? batch.images : held.in.span();
  PACELINE_RETURN_IF_ERROR(backend.forward({parameters_, batch, in, begins_[micro_batch], is_kept}, out));
  keep(held, backend.activation_bytes() + static_cast<std::int64_t>(held.in.size() * sizeof(float)));
  if (!is_last()) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(losses_[micro_batch], backend.loss(batch, of_.divisor));
  return Status::ok();
}

// Where its receiver can read it, so that nothing is copied. To nobody nothing.
PeerRoom StageRunner::room(NodeId to, std::int64_t floats) {
  return floats == 0 ? PeerRoom() : channels_->room(to, floats);
}

Status StageRunner::forward(std::uint32_t micro_batch) {
  Held& held = held_[micro_batch];
  if (!is_first()) {
    PACELINE_ASSIGN_OR_RETURN(PeerMessage message, receive(false, micro_batch, of_.floats.in));
    held.in = std::move(message.floats);
  }
  const NodeId next(of_.node.value + 1);
  PeerRoom out = room(next, of_.floats.out * rows(micro_batch).size());
  const bool is_dropped = recomputed_[micro_batch];
  PACELINE_RETURN_IF_ERROR(compute_forward(micro_batch, !is_dropped, out.span()));
  if (is_dropped) free_.push_back(held.backend);
  if (!is_dropped) held.in = {};
  keep(held, is_dropped ? static_cast<std::int64_t>(held.in.size() * sizeof(float))
                        : backends_[held.backend]->activation_bytes());
  if (is_last()) return Status::ok();
  return send(next,
              {at_.clock.value, at_.position, micro_batch, 0, 0.0, 0, std::move(out).done(), of_.samples});
}

// What goes on has gone.
Status StageRunner::recompute(std::uint32_t micro_batch) { return compute_forward(micro_batch, true, {}); }

Status StageRunner::backward(std::uint32_t micro_batch) {
  Held& held = held_[micro_batch];
  PeerMessage came;
  Metric metric = losses_[micro_batch];
  const Batch batch = rows(micro_batch);
  if (!is_last()) {
    PACELINE_ASSIGN_OR_RETURN(came, receive(true, micro_batch, of_.floats.back_in));
    metric = {came.loss_sum, came.correct, batch.size()};
  }
  const NodeId previous(of_.node.value - (is_first() ? 0 : 1));
  PeerRoom back = room(previous, of_.floats.back_out * batch.size());
  const std::span<float> into = has_gradient_ ? std::span(part_) : gradient_;
  PACELINE_RETURN_IF_ERROR(backends_[held.backend]->backward(
      {parameters_, batch, {}, begins_[micro_batch], true}, came.floats, back.span(), into));
  came.floats = {};
  if (norms_) norms_->add(batch.size(), into);
  free_.push_back(held.backend);
  held.in = {};
  keep(held, 0);
  metric_.loss_sum += metric.loss_sum;
  metric_.correct += metric.correct;
  metric_.samples += metric.samples;
  if (!is_first()) {
    PACELINE_RETURN_IF_ERROR(send(previous, {at_.clock.value, at_.position, micro_batch, 1, metric.loss_sum,
                                             metric.correct, std::move(back).done(), of_.samples}));
  }
  if (std::exchange(has_gradient_, true)) add_weighted(gradient_, part_, 1.0F);
  return Status::ok();
}

}  // namespace paceline
