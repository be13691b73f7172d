#include "common/network/stage_plan.h"

#include <algorithm>
#include <string>

#include "common/config/reducing.h"

namespace paceline {
namespace {

Status too_large(const std::string& what, std::int64_t bytes, std::int64_t most, const std::string& helps) {
  return invalid_argument("got " + what + " that needs " + std::to_string(bytes) +
                          " bytes, expected at most " + std::to_string(most) + " (" + helps + ")");
}

// "less may be needed with pipeline.balance: memory, pipeline.rematerialize: auto, more micro-batches or more stages"
std::string what_helps(const PipelineSection& pipeline) {
  std::string helps = "less may be needed with ";
  if (pipeline.balance.kind != BalanceKind::kMemory) helps += "pipeline.balance: memory, ";
  if (pipeline.rematerialize == Rematerialize::kOff) helps += "pipeline.rematerialize: auto, ";
  return helps + "more micro-batches or more stages";
}

}  // namespace

std::int64_t activation_bytes(const NetworkSpec& network, const StageSpec& stage, const schedule::Kept& kept,
                              std::int64_t samples) {
  // What comes in lies beside the activations, and where it waits to be computed with; images wait in the mini-batch.
  const std::int64_t in = floats_of(network, stage.inputs);
  const std::int64_t waiting =
      stage.first == 0 ? 0 : std::max<std::int64_t>(0, kept.inputs - kept.activations) + 1;
  const std::int64_t activations =
      (cost_of(network, stage).activations + in) * kept.activations + in * waiting;
  return std::int64_t{sizeof(float)} * samples * activations;
}

bool computes_apart(const NetworkSpec& network, const StageSpec& stage, std::int64_t largest,
                    std::int64_t samples) {
  if (samples == largest) return false;
  const bool mixes = std::any_of(network.layers.begin() + static_cast<std::ptrdiff_t>(stage.first),
                                 network.layers.begin() + static_cast<std::ptrdiff_t>(stage.last),
                                 [](const Layer& layer) { return layer.mixes_samples(); });
  return mixes || 10 * (largest - samples) > largest;
}

std::int64_t stage_bytes(const NetworkSpec& network, const StageSpec& stage, const schedule::Kept& kept,
                         std::span<const std::int64_t> sizes, std::int64_t more_vectors) {
  const std::int64_t vectors = (sizes.size() > 1 ? 3 : 2) + more_vectors;
  std::int64_t bytes = vectors * std::int64_t{sizeof(float)} * stage.parameters.size() +
                       activation_bytes(network, stage, kept, sizes.front());
  if (computes_apart(network, stage, sizes.front(), sizes.back()))
    bytes += activation_bytes(network, stage, kept, sizes.back());
  return bytes;
}

Result<schedule::PipelinePlan> plan_of_run(const RunConfig& config, const NetworkSpec& network,
                                           const std::vector<StageSpec>& stages) {
  const PipelineSection& pipeline = config.pipeline;
  const auto micro_batches = static_cast<std::uint32_t>(pipeline.micro_batches);
  const std::uint32_t chunks = pipeline.chunks_of_stage();
  const std::vector<std::int64_t> sizes = schedule::micro_batch_sizes(group_samples(config), micro_batches);
  schedule::PipelinePlan plan =
      schedule::plan_pipeline(pipeline.schedule, pipeline.stages, micro_batches, {}, chunks);
  std::vector<std::int64_t> most;  // of each chunk
  for (const schedule::Kept& all : plan.bounds) {
    most.push_back(pipeline.rematerialize == Rematerialize::kOn ? 1 : all.activations);
  }
  for (std::uint32_t s = 0; pipeline.memory && s < pipeline.stages; ++s) {
    const auto bytes = [&] {
      std::int64_t sum = 0;
      for (std::size_t part = s; part < stages.size(); part += pipeline.stages) {
        const schedule::Kept kept{plan.bounds[part].inputs, most[part]};
        sum += stage_bytes(network, stages[part], kept, sizes, reducing_vectors(config));
      }
      return sum;
    };
    const auto keeps_most = [&] {  // of its chunks
      std::int64_t* found = &most[s];
      for (std::size_t part = s; part < stages.size(); part += pipeline.stages) {
        if (most[part] > *found) found = &most[part];
      }
      return found;
    };
    if (pipeline.rematerialize == Rematerialize::kAuto) {
      while (*keeps_most() > 1 && bytes() > *pipeline.memory) --*keeps_most();
    }
    if (bytes() > *pipeline.memory) {
      return too_large("stage " + std::to_string(s), bytes(), *pipeline.memory, what_helps(pipeline));
    }
  }
  plan = schedule::plan_pipeline(pipeline.schedule, pipeline.stages, micro_batches, most, chunks);
  PACELINE_RETURN_IF_ERROR(schedule::check(plan));
  return plan;
}

Status check_memory_of_whole(const RunConfig& config, const NetworkSpec& network) {
  if (!config.pipeline.memory) return Status::ok();
  // Each worker of the node has its own; what an all-reduce keeps is the node's.
  const StageSpec whole = whole_network(network);
  const std::vector<std::int64_t> sizes = {config.train.batch_size};
  const std::int64_t bytes = stage_bytes(network, whole, {1, 1}, sizes) * config.cluster.threads_per_node +
                             reducing_vectors(config) * std::int64_t{sizeof(float)} * whole.parameters.size();
  if (bytes <= *config.pipeline.memory) return Status::ok();
  return too_large("a network in one piece", bytes, *config.pipeline.memory,
                   "less is needed with pipeline.stages, or a smaller train.batch_size");
}

}  // namespace paceline
