#include "tools/schedule_pipeline.h"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/config/reducing.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"
#include "common/schedule/pipeline.h"
#include "common/schedule/timeline.h"
#include "tools/schedule_sums.h"
#include "worker/pipeline/layer_times.h"

namespace paceline {
namespace {

constexpr std::size_t kTimelineColumns = 100;

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
  return text;
}

// One line: "stage 0: layers conv1 .. pool1 (3), 896 parameters, ...".
std::string describe(const NetworkSpec& network, const StageSpec& stage, const std::string& name,
                     double share) {
  const StageCost cost = cost_of(network, stage);
  const std::int64_t goes_on = floats_of(network, stage.outputs);
  return name + ": layers " + network.layers[stage.first].name + " .. " +
         network.layers[stage.last - 1].name + " (" + std::to_string(stage.last - stage.first) + "), " +
         std::to_string(stage.parameters.size()) + " parameters, " + std::to_string(cost.multiply_adds) +
         " multiply-adds and " + std::to_string(cost.activations * static_cast<std::int64_t>(sizeof(float))) +
         " activation bytes for each sample, " + percent(share) + " of the time" +
         (goes_on > 0 ? ", passes on " + std::to_string(goes_on) + " floats of it" : "") + "\n";
}

// How a network is cut, and how long passes of its stages, or their chunks, take for a micro-batch, in whatever unit.
struct Cut {
  std::vector<StageSpec> stages;
  std::vector<schedule::StageTimes> times;
  Layout layout;  // by stages
};

Result<Cut> cut_by_products(const RunConfig& config, const NetworkSpec& network) {
  PACELINE_ASSIGN_OR_RETURN(auto stages, stages_of_run(config, network));
  Cut cut{std::move(stages), {}, network.layout};
  for (const StageSpec& stage : cut.stages) {
    // Backward there is a product for what goes back, and one for the weights; layers without take their elements.
    const StageCost cost = cost_of(network, stage);
    const auto forward = static_cast<double>(cost.multiply_adds + cost.activations);
    cut.times.push_back({forward, 2.0 * forward});
  }
  return cut;
}

// On this machine, for nodes that are as fast as `speeds` say; empty: all alike.
Result<Cut> cut_by_measured(const RunConfig& config, const NetworkSpec& network, std::int64_t samples,
                            const std::vector<double>& speeds) {
  PACELINE_ASSIGN_OR_RETURN(const auto layers, layer_times(config.train.backend, network, samples));
  std::vector<double> costs;
  for (const schedule::StageTimes& layer : layers) costs.push_back(layer.forward + layer.backward);
  const std::uint32_t count = config.pipeline.stages;
  PACELINE_ASSIGN_OR_RETURN(auto stages,
                            cut_by_costs(network, costs, count, speeds, config.pipeline.chunks_of_stage()));
  NetworkSpec laid_out = network;
  Cut cut{lay_out_by_stages(laid_out, stages, count), {}, std::move(laid_out.layout)};
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    schedule::StageTimes sum{0.0, 0.0};
    const double speed = speeds.empty() ? 1.0 : speeds[s % count];
    for (std::size_t i = cut.stages[s].first; i < cut.stages[s].last; ++i) {
      sum.forward += layers[i].forward / speed;
      sum.backward += layers[i].backward / speed;
    }
    cut.times.push_back(sum);
  }
  return cut;
}

// "stage 0", or "chunk 2, of stage 0" where a stage has several.
std::string name_of_part(const PipelineSection& pipeline, std::size_t part) {
  const std::string stage = "stage " + std::to_string(part % pipeline.stages);
  return pipeline.chunks_of_stage() == 1 ? stage : "chunk " + std::to_string(part) + ", of " + stage;
}

// As pipeline.balance has it: "[2, 1, 1]".
std::string list_of_layers(const std::vector<StageSpec>& parts) {
  std::string text;
  for (const StageSpec& part : parts)
    text += (text.empty() ? "[" : ", ") + std::to_string(part.last - part.first);
  return text + "]";
}

// What a stage computes when, and what it keeps.
void print_rows(const RunConfig& config, const NetworkSpec& network, const std::vector<StageSpec>& parts,
                const schedule::PipelinePlan& plan, std::ostream& out) {
  const std::vector<std::int64_t> sizes =
      schedule::micro_batch_sizes(group_samples(config), plan.micro_batches);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    std::string activations;
    std::string inputs;
    bool waits = false;
    std::int64_t bytes = 0;
    for (std::uint32_t chunk = 0; chunk < plan.chunks; ++chunk) {
      const schedule::Kept kept = schedule::kept(plan.stages[s], chunk);
      const StageSpec& part = parts[s + chunk * plan.stages.size()];
      activations += (chunk == 0 ? "" : " and ") + std::to_string(kept.activations);
      inputs += (chunk == 0 ? "" : " and ") + std::to_string(kept.inputs);
      waits = waits || kept.inputs > kept.activations;
      bytes += stage_bytes(network, part, kept, sizes, reducing_vectors(config));
    }
    out << "stage " << s << ": " << to_string(plan.stages[s]) << "\n  keeps activations of at most "
        << activations << " micro-batch(es)" << (plan.chunks > 1 ? " of its chunks" : "")
        << (waits ? ", inputs of " + inputs : "") << ", " << bytes
        << " bytes with parameters and gradients\n";
  }
}

void print_head(const RunConfig& config, std::uint32_t chunks, std::ostream& out) {
  const PipelineSection& pipeline = config.pipeline;
  const std::vector<std::int64_t> sizes =
      schedule::micro_batch_sizes(group_samples(config), static_cast<std::uint32_t>(pipeline.micro_batches));
  out << pipeline.stages << " stages" << (chunks > 1 ? " of " + std::to_string(chunks) + " chunks" : "")
      << ", " << config.cluster.nodes / pipeline.stages << " group(s), " << pipeline.micro_batches
      << " micro-batches of " << sizes.back()
      << (sizes.front() == sizes.back() ? "" : " or " + std::to_string(sizes.front())) << " samples, "
      << name_of(pipeline.schedule)
      << (pipeline.rematerialize == Rematerialize::kOff ? "" : ", rematerialised") << "\n\n";
}

// Returns the times.
schedule::PipelineTimes print_timeline(const schedule::PipelinePlan& plan,
                                       const std::vector<schedule::StageTimes>& stages, std::ostream& out) {
  schedule::PipelineTimes ran = schedule::times(plan, stages);
  out << "\n" << timeline(ran, kTimelineColumns) << schedule::kTimelineLegend;
  out << "\nbubble: "
      << percent(schedule::bubble_formula(static_cast<std::uint32_t>(plan.stages.size()), plan.micro_batches,
                                          plan.chunks))
      << " with equal stages";
  return ran;
}

// A loop's own model is not known here.
Status print_equal_stages(const RunConfig& config, std::ostream& out) {
  const PipelineSection& pipeline = config.pipeline;
  std::vector<std::int64_t> most;
  if (pipeline.rematerialize == Rematerialize::kOn) most.assign(pipeline.stages, 1);
  const schedule::PipelinePlan plan = schedule::plan_pipeline(
      pipeline.schedule, pipeline.stages, static_cast<std::uint32_t>(pipeline.micro_batches), most, 1);
  PACELINE_RETURN_IF_ERROR(schedule::check(plan));
  print_head(config, plan.chunks, out);
  out << "the model is a loop's own (pipeline.balance: loop): its stages are taken to be equal\n\nchecked\n";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    out << "stage " << s << ": " << to_string(plan.stages[s]) << "\n  keeps activations of at most "
        << schedule::kept(plan.stages[s], 0).activations << " micro-batch(es)\n";
  }
  print_timeline(plan, std::vector(pipeline.stages, schedule::StageTimes{1.0, 2.0}), out);
  out << "\n";
  return Status::ok();
}

}  // namespace

Status print_pipeline(const PipelineCut& how, const RunConfig& config, const NetworkSpec& network,
                      std::ostream& out) {
  const PipelineSection& pipeline = config.pipeline;
  const std::size_t speeds = how.speeds.size();
  if (speeds > 0 && (speeds != pipeline.stages || !how.measure)) {
    return invalid_argument("--speeds: got " + std::to_string(speeds) + ", expected one for each of " +
                            std::to_string(pipeline.stages) + " stages, with --measure");
  }
  if (cut_by_loop(pipeline.balance)) {
    if (!how.measure) return print_equal_stages(config, out);
    return invalid_argument(
        "--measure: got it with pipeline.balance: loop, whose model is not known here, expected "
        "paceline.torch.balance()");
  }
  const auto micro_batches = static_cast<std::uint32_t>(pipeline.micro_batches);
  const std::vector<std::int64_t> sizes = schedule::micro_batch_sizes(group_samples(config), micro_batches);
  PACELINE_ASSIGN_OR_RETURN(const Cut cut, how.measure
                                               ? cut_by_measured(config, network, sizes.front(), how.speeds)
                                               : cut_by_products(config, network));
  const auto planned = plan_of_run(config, network, cut.stages);
  if (!planned.is_ok()) return Status(planned.status()).with_context("pipeline.memory");
  const schedule::PipelinePlan& plan = *planned;
  print_head(config, plan.chunks, out);
  double all = 0.0;
  for (const schedule::StageTimes& stage : cut.times) all += stage.forward + stage.backward;
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    out << describe(network, cut.stages[s], name_of_part(pipeline, s),
                    (cut.times[s].forward + cut.times[s].backward) / all);
  }
  out << "\nchecked\n";
  print_rows(config, network, cut.stages, plan, out);
  const schedule::PipelineTimes ran = print_timeline(plan, cut.times, out);
  out << ", " << percent(ran.bubble_share()) << " with these\n";
  std::vector<double> sums(pipeline.stages, 0.0);
  const bool reduces = config.exchange.kind == ExchangeKind::kAllreduce;
  if (reduces) {
    PACELINE_ASSIGN_OR_RETURN(
        sums, print_sums_of_stages(config, cut.layout, held_by_stages(cut.stages, pipeline.stages), out));
  }
  if (!how.measure) return Status::ok();
  out << "a step takes " << ran.step * 1e3 << " ms of computing, as measured here";
  if (reduces) {
    double ends = 0.0;
    for (std::size_t s = 0; s < sums.size(); ++s) ends = std::max(ends, ran.ends(s) + sums[s]);
    out << ", and " << ends * 1e3 << " ms with the sums";
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<StageSpec> now, stages_of_run(config, network));
  const std::string measured = list_of_layers(cut.stages);
  out << "\npipeline.balance: " << measured
      << (measured == list_of_layers(now) ? ", as the configuration cuts it already" : "") << "\n";
  return Status::ok();
}

}  // namespace paceline
