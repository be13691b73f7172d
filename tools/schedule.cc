#include "tools/schedule.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/config/names.h"
#include "common/config/reducing.h"
#include "common/network/network.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/pipeline.h"
#include "common/schedule/print.h"
#include "common/schedule/run_links.h"
#include "common/schedule/run_plan.h"
#include "worker/pipeline/layer_times.h"

namespace paceline {
namespace {

const std::vector<schedule::Algorithm> kAlgorithms = {
    schedule::Algorithm::kRing,  schedule::Algorithm::kHalvingDoubling, schedule::Algorithm::kBinaryBlocks,
    schedule::Algorithm::kTorus, schedule::Algorithm::kHierarchical,    schedule::Algorithm::kDirect,
    schedule::Algorithm::kTree};

// What a plan may have in memory: rows grow as the square of ranks, and what the checker keeps as their cube.
constexpr int kRanksMax = 1024;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 30;

constexpr std::size_t kTimelineColumns = 100;

std::optional<schedule::Algorithm> named(const std::string& name) {
  for (const schedule::Algorithm algorithm : kAlgorithms) {
    if (name == schedule::name_of(algorithm)) return algorithm;
  }
  return std::nullopt;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * share);
  return text;
}

// One line: "stage 0: layers conv1 .. pool1 (3), 896 parameters, ...".
std::string describe(const NetworkSpec& network, const StageSpec& stage, std::size_t index, double share) {
  const StageCost cost = cost_of(network, stage);
  const std::int64_t goes_on = floats_of(network, stage.outputs);
  return "stage " + std::to_string(index) + ": layers " + network.layers[stage.first].name + " .. " +
         network.layers[stage.last - 1].name + " (" + std::to_string(stage.last - stage.first) + "), " +
         std::to_string(stage.parameters.size()) + " parameters, " + std::to_string(cost.multiply_adds) +
         " multiply-adds and " + std::to_string(cost.activations * static_cast<std::int64_t>(sizeof(float))) +
         " activation bytes for each sample, " + percent(share) + " of the time" +
         (goes_on > 0 ? ", passes on " + std::to_string(goes_on) + " floats of it" : "") + "\n";
}

// How a network is cut, and how long passes of its stages take for a micro-batch, in whatever unit.
struct Cut {
  std::vector<StageSpec> stages;
  std::vector<schedule::StageTimes> times;
};

Result<Cut> cut_by_products(const RunConfig& config, const NetworkSpec& network) {
  PACELINE_ASSIGN_OR_RETURN(auto stages, stages_of_run(config, network));
  Cut cut{std::move(stages), {}};
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
  PACELINE_ASSIGN_OR_RETURN(auto stages, cut_by_costs(network, costs, config.pipeline.stages, speeds));
  Cut cut{std::move(stages), {}};
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    schedule::StageTimes sum{0.0, 0.0};
    const double speed = speeds.empty() ? 1.0 : speeds[s];
    for (std::size_t i = cut.stages[s].first; i < cut.stages[s].last; ++i) {
      sum.forward += layers[i].forward / speed;
      sum.backward += layers[i].backward / speed;
    }
    cut.times.push_back(sum);
  }
  return cut;
}

Status print_pipeline(const ScheduleOptions& options, const RunConfig& config, const NetworkSpec& network,
                      std::ostream& out) {
  const PipelineSection& pipeline = config.pipeline;
  const auto micro_batches = static_cast<std::uint32_t>(pipeline.micro_batches);
  const std::vector<std::int64_t> sizes = schedule::micro_batch_sizes(group_samples(config), micro_batches);
  PACELINE_ASSIGN_OR_RETURN(const Cut cut,
                            options.measure ? cut_by_measured(config, network, sizes.front(), options.speeds)
                                            : cut_by_products(config, network));
  PACELINE_ASSIGN_OR_RETURN(const schedule::PipelinePlan plan, plan_of_run(config, network, cut.stages));
  out << pipeline.stages << " stages, " << config.cluster.nodes / pipeline.stages << " group(s), "
      << pipeline.micro_batches << " micro-batches of " << sizes.back()
      << (sizes.front() == sizes.back() ? "" : " or " + std::to_string(sizes.front())) << " samples, "
      << name_of(pipeline.schedule)
      << (pipeline.rematerialize == Rematerialize::kOff ? "" : ", rematerialised") << "\n\n";
  double all = 0.0;
  for (const schedule::StageTimes& stage : cut.times) all += stage.forward + stage.backward;
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    out << describe(network, cut.stages[s], s, (cut.times[s].forward + cut.times[s].backward) / all);
  }
  out << "\nchecked\n";
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const schedule::Kept kept = schedule::kept(plan.stages[s]);
    out << "stage " << s << ": " << to_string(plan.stages[s]) << "\n  keeps activations of at most "
        << kept.activations << " micro-batch(es)"
        << (kept.inputs > kept.activations ? ", inputs of " + std::to_string(kept.inputs) : "") << ", "
        << stage_bytes(network, cut.stages[s], kept, sizes, reducing_vectors(config))
        << " bytes with parameters and gradients\n";
  }
  const schedule::PipelineTimes ran = schedule::times(plan, cut.times);
  out << "\n" << timeline(ran, kTimelineColumns);
  out << "\nbubble: " << percent(schedule::bubble_formula(pipeline.stages, micro_batches))
      << " with equal stages, " << percent(ran.bubble_share()) << " with these\n";
  if (!options.measure) return Status::ok();
  out << "a step takes " << ran.step * 1e3 << " ms of computing, as measured here";
  out << "\npipeline.balance: [";
  for (std::size_t s = 0; s < cut.stages.size(); ++s) {
    out << (s == 0 ? "" : ", ") << cut.stages[s].last - cut.stages[s].first;
  }
  out << "]\n";
  return Status::ok();
}

int pipeline_plan(const ScheduleOptions& options, const RunConfig& config, const NetworkSpec& network,
                  std::ostream& out, std::ostream& err) {
  const std::size_t speeds = options.speeds.size();
  Status printed = Status::ok();
  if (speeds > 0 && (speeds != config.pipeline.stages || !options.measure)) {
    printed = invalid_argument("--speeds: got " + std::to_string(speeds) + ", expected one for each of " +
                               std::to_string(config.pipeline.stages) + " stages, with --measure");
  } else {
    printed = print_pipeline(options, config, network, out);
  }
  if (printed.is_ok()) return kExitOk;
  err << "paceline schedule: " << printed.message() << "\n";
  return kExitUsage;
}

}  // namespace

int schedule_plan(const ScheduleOptions& options, std::ostream& out, std::ostream& err) {
  const auto refuse = [&err](const std::string& why) {
    err << why << "\n";
    return kExitUsage;
  };
  const Result<RunConfig> config = load_config(options.path, options.overrides, LoadFor::kReading);
  if (!config) return refuse(config.status().message());
  if (config->exchange.kind != ExchangeKind::kAllreduce && !config->pipeline.enabled()) {
    return refuse("paceline schedule: " + options.path +
                  ": exchange.kind is server, expected allreduce, or pipeline.stages above 1");
  }
  const Result<NetworkSpec> network = build_network(*config);
  if (!network) return refuse("paceline schedule: " + network.status().message());
  if (config->pipeline.enabled() && !options.table.ranks.empty()) {
    return refuse("--ranks: got it with pipeline.stages above 1, expected stages: 1");
  }
  if (config->pipeline.enabled()) return pipeline_plan(options, *config, *network, out, err);
  if (config->exchange.shard_optimizer) {
    return refuse(
        "paceline schedule: exchange.shard_optimizer: sums and copies apart are not planned here, got true, "
        "expected false");
  }
  if (!options.table.ranks.empty()) {
    ScheduleTable table = options.table;
    std::sort(table.ranks.begin(), table.ranks.end());
    if (table.bytes.empty())
      table.bytes = {network->layout.size() * static_cast<std::int64_t>(sizeof(float))};
    for (const std::string& name : options.algorithms) table.algorithms.push_back(named(name).value());
    if (table.algorithms.empty()) table.algorithms = kAlgorithms;
    const Status printed = print_table(table, *config, out);
    return printed.is_ok() ? kExitOk : refuse("paceline schedule: " + printed.message());
  }
  const std::vector<Range> cut = schedule::buckets(network->layout, config->exchange.bucket_bytes);
  const schedule::Links links = schedule::links_of_run(config->simulate);
  double all = 0.0;
  out << network->layout.size() << " floats in " << cut.size() << " bucket(s), " << config->cluster.nodes
      << " node(s), algorithm " << name_of(config->exchange.algorithm) << "\n";
  struct Printed {
    std::size_t bucket = 0;
    double seconds = 0.0;
  };
  std::map<std::int64_t, Printed> printed;  // buckets of one size have one plan
  for (std::size_t b = 0; b < cut.size(); ++b) {
    out << "\nbucket " << b << ": floats " << cut[b].begin << ".." << cut[b].end << ", ";
    const auto [same, is_new] = printed.emplace(cut[b].size(), Printed{b});
    if (!is_new) {
      out << "as bucket " << same->second.bucket << "\n";
      all += same->second.seconds;
      continue;
    }
    const Result<schedule::Plan> plan = schedule::plan_of_run(*config, cut[b].size());
    if (!plan) return refuse("paceline schedule: " + plan.status().message());
    if (const Status checked = schedule::check(*plan); !checked.is_ok()) {
      return refuse("paceline schedule: " + checked.message());
    }
    const std::vector<double> ends =
        schedule::reduction_times(schedule::programs_of(*plan, config->cluster.gradient_encoding), links);
    same->second.seconds = *std::max_element(ends.begin(), ends.end());
    all += same->second.seconds;
    out << "checked, takes " << milliseconds_text(same->second.seconds) << "\n" << to_string(*plan);
  }
  out << "\none after another " << milliseconds_text(all) << ", with " << words_of_links(*config) << "\n";
  return kExitOk;
}

void add_schedule(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("schedule", "Print the plan of a run's all-reduce or pipeline, checked");
  const auto options = std::make_shared<ScheduleOptions>();
  command->add_option("FILE", options->path, "The configuration")->required();
  command->add_option("key.path=value", options->overrides, "Overrides, as the daemons take them");
  command->add_flag("--measure", options->measure, "Of a pipeline: time the layers here, and cut it by that");
  command->add_option("--speeds", options->speeds, "With it: how fast each stage's node is, as 1,1,2")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--ranks", options->table.ranks,
                   "Of an all-reduce: a table of times for so many ranks, as 16,64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, kRanksMax));
  CLI::Option* const ranks = command->get_option("--ranks");
  command
      ->add_option("--bytes", options->table.bytes,
                   "With it: of so many bytes, as 4KiB,100MB; else the model's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(ranks)
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(CLI::Range(std::int64_t{4}, kBytesMax));
  std::string algorithms;
  for (const schedule::Algorithm algorithm : kAlgorithms) {
    algorithms += (algorithms.empty() ? "" : ", ") + std::string(schedule::name_of(algorithm));
  }
  const auto known = [algorithms](const std::string& name) {
    return named(name) ? "" : "got " + name + ", expected of " + algorithms;
  };
  command->add_option("--algorithms", options->algorithms, "With it: of these, as ring,torus; else all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(ranks)
      ->check(CLI::Validator(known, ""));
  command->callback([options, &exit_status] { exit_status = schedule_plan(*options, std::cout, std::cerr); });
}

}  // namespace paceline
