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

constexpr std::chrono::milliseconds kCheckEvery(100);

}  // namespace

template <typename Float>
std::span<Float> StageRunner::part(std::span<Float> of_stage, const Working& chunk) {
  const Range& own = chunk.of->parameters;
  return of_stage.subspan(static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.size()));
}

StageRunner::StageRunner(Stage stage)
    : of_(std::move(stage)), rows_(of_.plan.stages.at(of_.stage)), losses_(of_.plan.micro_batches) {
  PACELINE_ASSERT(of_.chunks.size() == of_.plan.chunks && of_.plan.stages.size() == of_.stages,
                  std::to_string(of_.chunks.size()) + " chunks");
  std::int64_t largest = 0;
  for (std::uint32_t c = 0; c < of_.plan.chunks; ++c) {
    Working& chunk = chunks_.emplace_back();
    chunk.of = &of_.chunks[c];
    chunk.number = c;
    chunk.is_first = of_.stage == 0 && c == 0;
    chunk.is_last = of_.stage + 1 == of_.stages && c + 1 == of_.plan.chunks;
    chunk.recomputed = schedule::is_recomputed(rows_, c);
    chunk.held.resize(of_.plan.micro_batches);
    if (chunk.of->norms) chunk.norms.emplace(*chunk.of->norms);
    largest = std::max(largest, chunk.of->parameters.size());
  }
  if (of_.plan.micro_batches > 1) part_.resize(static_cast<std::size_t>(largest));
}

Result<std::unique_ptr<StageRunner>> StageRunner::make(Parts parts) {
  const NetworkSpec& network = parts.network;
  const auto stages = static_cast<std::uint32_t>(parts.plan.stages.size());
  const Range held = held_by_stages(parts.chunks, stages).at(parts.stage);
  std::vector<Chunk> chunks;
  for (std::size_t c = parts.stage; c < parts.chunks.size(); c += stages) {
    const StageSpec& own = parts.chunks[c];
    const StageFloats floats{floats_of(network, own.inputs), floats_of(network, own.outputs),
                             floats_of(network, only_trained(network, own.outputs)),
                             c == 0 ? 0 : floats_of(network, only_trained(network, own.inputs))};
    chunks.push_back({floats,
                      {own.parameters.begin - held.begin, own.parameters.end - held.begin},
                      [&network, own, kind = parts.backend, seed = parts.seed](std::int64_t samples) {
                        return make_stage_backend(kind, network, own, samples, seed);
                      },
                      MeasuredNorms(network, own, parts.samples, parts.divisor)});
  }
  return make(Stage{parts.stage, stages, parts.node, std::move(parts.plan), parts.samples, parts.divisor,
                    std::move(chunks), parts.passes});
}

Result<std::unique_ptr<StageRunner>> StageRunner::make(Stage stage) {
  std::unique_ptr<StageRunner> runner(new StageRunner(std::move(stage)));
  PACELINE_RETURN_IF_ERROR(runner->make_backends());
  return runner;
}

std::vector<PeerBounds> StageRunner::peer_bounds(const NetworkSpec& network,
                                                 const std::vector<StageSpec>& chunks, std::uint32_t stage,
                                                 const schedule::PipelinePlan& plan, std::int64_t samples) {
  const std::int64_t rows = schedule::micro_batch_sizes(samples, plan.micro_batches).front();  // the largest
  const std::size_t stages = plan.stages.size();
  std::vector<PeerBounds> bounds(stages);
  const auto add = [&](std::size_t beside, std::int64_t come, std::int64_t sent,
                       const schedule::Kept& between) {
    PeerBounds& all = bounds[beside];
    all.floats = std::max(all.floats, rows * come);
    all.messages += plan.micro_batches;
    all.floats_sent = std::max(all.floats_sent, rows * sent);
    all.messages_sent += static_cast<std::size_t>(between.inputs);
  };
  for (std::size_t c = stage; c < chunks.size(); c += stages) {
    const auto [in, out] = std::pair(chunks[c].inputs, chunks[c].outputs);
    if (c > 0) {
      add((c - 1) % stages, floats_of(network, in), floats_of(network, only_trained(network, in)),
          plan.bounds[c - 1]);
    }
    if (c + 1 < chunks.size()) {
      add((c + 1) % stages, floats_of(network, only_trained(network, out)), floats_of(network, out),
          plan.bounds[c]);
    }
  }
  return bounds;
}

Status StageRunner::make_backends() {
  begins_.assign(1, 0);
  for (const std::int64_t size : schedule::micro_batch_sizes(of_.samples, of_.plan.micro_batches)) {
    PACELINE_ASSERT(size > 0, "an empty micro-batch");
    begins_.push_back(begins_.back() + size);
  }
  for (Working& chunk : chunks_) {
    const std::int64_t kept = schedule::kept(rows_, chunk.number).activations;
    for (std::int64_t i = 0; i < kept; ++i) {
      PACELINE_ASSIGN_OR_RETURN(auto backend, chunk.of->make_backend(begins_[1]));
      chunk.backends.push_back(std::move(backend));
      chunk.free.push_back(static_cast<std::size_t>(i));
    }
  }
  return Status::ok();
}

Result<Metric> StageRunner::step(const At& at, std::span<const float> parameters, const Batch& batch,
                                 std::span<float> gradient, PeerChannels& channels) {
  PACELINE_ASSERT(batch.size() == of_.samples && parameters.size() == gradient.size() &&
                      std::ssize(gradient) == of_.chunks.back().parameters.end,
                  std::to_string(batch.size()) + " samples, " + std::to_string(gradient.size()) + " floats");
  at_ = at;
  parameters_ = parameters;
  batch_ = &batch;
  gradient_ = gradient;
  channels_ = &channels;
  for (Working& chunk : chunks_) {
    chunk.has_gradient = false;
    if (chunk.norms) chunk.norms->begin();
  }
  metric_ = {};
  waited_ = waited_for_previous_ = {};
  const Ticks began = steady_now();
  for (const PipelineRow& row : rows_) {
    pass_began_ = steady_now();
    PACELINE_RETURN_IF_ERROR(run(row));
    if (of_.passes != nullptr) {
      of_.passes->add({pass_began_, steady_now() - pass_began_, at_.clock, row});
    }
  }
  for (Working& chunk : chunks_) {
    if (chunk.norms) chunk.norms->write(part(gradient_, chunk));
  }
  report_.idle += waited_;
  report_.idle_for_previous += waited_for_previous_;
  report_.busy += steady_now() - began - waited_;
  return metric_;
}

Status StageRunner::run(const PipelineRow& row) {
  Working& chunk = chunks_[row.chunk];
  switch (row.pass) {
    case PipelineRow::Pass::kForward:
      return forward(chunk, row.micro_batch);
    case PipelineRow::Pass::kRecompute:  // what goes on has gone
      return compute_forward(chunk, row.micro_batch, true, {});
    case PipelineRow::Pass::kBackward:
      break;
  }
  return backward(chunk, row.micro_batch);
}

// Images are the network's first chunk's.
Batch StageRunner::rows(std::uint32_t micro_batch, bool with_images) const {
  const auto begin = static_cast<std::size_t>(begins_[micro_batch]);
  const auto size = static_cast<std::size_t>(begins_[micro_batch + 1]) - begin;
  Batch batch;
  if (with_images) {
    const auto image = static_cast<std::size_t>(of_.chunks.front().floats.in);
    batch.images = batch_->images.subspan(begin * image, size * image);
  }
  batch.labels = batch_->labels.subspan(begin, size);
  if (!batch_->sample_ids.empty()) batch.sample_ids = batch_->sample_ids.subspan(begin, size);
  if (!batch_->epochs.empty()) batch.epochs = batch_->epochs.subspan(begin, size);
  return batch;
}

// Where what goes `way` goes to.
NodeId StageRunner::beside(Way way) const {
  const std::uint32_t first = of_.node.value - of_.stage;
  return NodeId(first + (of_.stage + (way == Way::kForward ? 1 : of_.stages - 1)) % of_.stages);
}

// "stage 1 (node 5)"
std::string StageRunner::name_of(NodeId node) const {
  return "stage " + std::to_string(node.value + of_.stage - of_.node.value) + " (node " + to_string(node) +
         ")";
}

// As messages number it: that of the chunk which takes it.
std::uint32_t StageRunner::pass_of(std::int64_t chunk, std::uint32_t micro_batch) const {
  return static_cast<std::uint32_t>(chunk) * of_.plan.micro_batches + micro_batch;
}

Result<PeerMessage> StageRunner::await(NodeId node) {
  if (!of_.while_waiting) return channels_->receive(node);
  for (;;) {
    Result<PeerMessage> message = channels_->receive_within(node, kCheckEvery);
    if (message.status().code() != StatusCode::kDeadlineExceeded) return message;
    PACELINE_RETURN_IF_ERROR(of_.while_waiting());
  }
}

// The next one that goes `way`. What goes the other one waits until it is asked for, where it comes from the same node.
Result<PeerMessage> StageRunner::next(Way way) {
  const NodeId from = beside(way == Way::kForward ? Way::kBackward : Way::kForward);
  std::deque<PeerMessage>& early = early_[static_cast<std::size_t>(way)];
  if (!early.empty()) {
    PeerMessage message = std::move(early.front());
    early.pop_front();
    return message;
  }
  std::deque<PeerMessage>& others = early_[way == Way::kForward ? 1 : 0];
  const bool both_ways = beside(way) == from && of_.plan.chunks > 1;
  for (;;) {
    Result<PeerMessage> message = await(from);
    const bool is_other = message.is_ok() && message->backward != static_cast<std::uint32_t>(way);
    const std::size_t most = std::size_t{of_.plan.chunks} * of_.plan.micro_batches;
    if (!is_other || !both_ways || others.size() >= most) return message;
    others.push_back(std::move(message).value());
  }
}

Result<PeerMessage> StageRunner::receive(Way way, const Working& chunk, std::uint32_t micro_batch,
                                         std::int64_t floats_each) {
  const NodeId from = beside(way == Way::kForward ? Way::kBackward : Way::kForward);
  const Ticks began = steady_now();
  Result<PeerMessage> message = next(way);
  pass_began_ = steady_now();
  const auto took = pass_began_ - began;
  waited_ += took;
  if (way == Way::kForward) waited_for_previous_ += took;
  if (!message.is_ok()) return Status(message.status()).with_context(name_of(from));
  const std::int64_t floats = floats_each * (begins_[micro_batch + 1] - begins_[micro_batch]);
  const std::uint32_t pass = pass_of(chunk.number, micro_batch);
  if (message->clock != at_.clock.value || message->position != at_.position ||
      message->micro_batch != pass || message->backward != static_cast<std::uint32_t>(way) ||
      message->samples != of_.samples || static_cast<std::int64_t>(message->floats.size()) != floats) {
    return failed_precondition(name_of(from) + ": micro-batch " + std::to_string(message->micro_batch) +
                               " of clock " + std::to_string(message->clock) + " at sample " +
                               std::to_string(message->position) + " of " + std::to_string(message->samples) +
                               ", " + std::to_string(message->floats.size()) +
                               " floats, expected micro-batch " + std::to_string(pass) + " of clock " +
                               to_string(at_.clock) + " at sample " + std::to_string(at_.position) + " of " +
                               std::to_string(of_.samples) + ", " + std::to_string(floats));
  }
  return message;
}

// Of `pass` (pass_of()).
Status StageRunner::send(Way way, std::uint32_t pass, const Metric& metric, PeerRoom floats) {
  const NodeId to = beside(way);
  return channels_
      ->send(to, {at_.clock.value, at_.position, pass, static_cast<std::uint32_t>(way), metric.loss_sum,
                  metric.correct, std::move(floats).done(), of_.samples})
      .with_context(name_of(to));
}

void StageRunner::keep(KeptPass& held, std::int64_t bytes) {
  activations_ += bytes - held.bytes;
  held.bytes = bytes;
  report_.activation_bytes = std::max(report_.activation_bytes, activations_);
}

Status StageRunner::compute_forward(Working& chunk, std::uint32_t micro_batch, bool is_kept,
                                    std::span<float> out) {
  KeptPass& held = chunk.held[micro_batch];
  PACELINE_ASSERT(!chunk.free.empty(), "more micro-batches than the plan keeps");
  held.backend = chunk.free.back();
  chunk.free.pop_back();
  const Batch batch = rows(micro_batch, chunk.is_first);
  StageBackend& backend = *chunk.backends[held.backend];
  const std::span<const float> in = chunk.is_first ? batch.images : held.in.span();
  PACELINE_RETURN_IF_ERROR(
      backend.forward({part(parameters_, chunk), batch, in, begins_[micro_batch], is_kept}, out));
  keep(held, backend.activation_bytes() + static_cast<std::int64_t>(held.in.size() * sizeof(float)));
  if (!chunk.is_last) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(losses_[micro_batch], backend.loss(batch, of_.divisor));
  return Status::ok();
}

// Where its receiver can read it, so that nothing is copied. To nobody nothing.
PeerRoom StageRunner::room(NodeId to, std::int64_t floats) {
  return floats == 0 ? PeerRoom() : channels_->room(to, floats);
}

Status StageRunner::forward(Working& chunk, std::uint32_t micro_batch) {
  KeptPass& held = chunk.held[micro_batch];
  const StageFloats& floats = chunk.of->floats;
  if (!chunk.is_first) {
    PACELINE_ASSIGN_OR_RETURN(PeerMessage message, receive(Way::kForward, chunk, micro_batch, floats.in));
    held.in = std::move(message.floats);
  }
  const std::int64_t samples = begins_[micro_batch + 1] - begins_[micro_batch];
  PeerRoom out = room(beside(Way::kForward), floats.out * samples);
  const bool is_dropped = chunk.recomputed[micro_batch];
  PACELINE_RETURN_IF_ERROR(compute_forward(chunk, micro_batch, !is_dropped, out.span()));
  if (is_dropped) chunk.free.push_back(held.backend);
  if (!is_dropped) held.in = {};
  keep(held, is_dropped ? static_cast<std::int64_t>(held.in.size() * sizeof(float))
                        : chunk.backends[held.backend]->activation_bytes());
  if (chunk.is_last) return Status::ok();
  const bool wraps = of_.stage + 1 == of_.stages;
  return send(Way::kForward, pass_of(chunk.number + (wraps ? 1 : 0), micro_batch), {}, std::move(out));
}

Status StageRunner::backward(Working& chunk, std::uint32_t micro_batch) {
  KeptPass& held = chunk.held[micro_batch];
  PeerMessage came;
  Metric metric = losses_[micro_batch];
  const Batch batch = rows(micro_batch, chunk.is_first);
  if (!chunk.is_last) {
    PACELINE_ASSIGN_OR_RETURN(came, receive(Way::kBackward, chunk, micro_batch, chunk.of->floats.back_in));
    metric = {came.loss_sum, came.correct, batch.size()};
  }
  PeerRoom back = room(beside(Way::kBackward), chunk.of->floats.back_out * batch.size());
  const std::span<float> gradient = part(gradient_, chunk);
  const std::span<float> into = chunk.has_gradient ? std::span(part_).first(gradient.size()) : gradient;
  PACELINE_RETURN_IF_ERROR(chunk.backends[held.backend]->backward(
      {part(parameters_, chunk), batch, {}, begins_[micro_batch], true}, came.floats, back.span(), into));
  came.floats = {};
  if (chunk.norms) chunk.norms->add(batch.size(), into);
  chunk.free.push_back(held.backend);
  held.in = {};
  keep(held, 0);
  if (chunk.number + 1 == of_.plan.chunks) metric_ += metric;  // once, of each stage in the same order
  if (!chunk.is_first) {
    const bool wraps = of_.stage == 0;
    PACELINE_RETURN_IF_ERROR(send(Way::kBackward,
                                  pass_of(std::int64_t{chunk.number} - (wraps ? 1 : 0), micro_batch), metric,
                                  std::move(back)));
  }
  if (std::exchange(chunk.has_gradient, true)) add_weighted(gradient, into, 1.0F);
  return Status::ok();
}

}  // namespace paceline
