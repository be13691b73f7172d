#include "simulate/reductions.h"

#include <algorithm>
#include <utility>

#include "common/config/reducing.h"
#include "common/network/stages.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/run_links.h"
#include "common/schedule/run_plan.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

// How much of a computation is done when the gradient is final from float `begin` on.
double final_share(const NetworkSpec& network, std::int64_t begin) {
  const auto all = static_cast<double>(cost_of(network, whole_network(network)).multiply_adds);
  for (std::size_t first = network.layers.size(); all > 0.0 && first-- > 0;) {
    const StageSpec next = stage_of_layers(network, first, network.layers.size());
    if (next.parameters.size() == 0 || next.parameters.begin > begin) continue;
    const auto done = static_cast<double>(cost_of(network, next).multiply_adds);
    return kForwardShare + (1.0 - kForwardShare) * done / all;
  }
  return 1.0;
}

}  // namespace

std::uint32_t Reductions::threads() const {
  return reducing_ranks(plan_->config) * plan_->cluster.threads_per_node;
}

Status Reductions::add(const NetworkSpec& network, std::uint32_t stage, const Range& own) {
  const RunConfig& config = plan_->config;
  Sum sum{own.size(), schedule::links_of_stage(config, stage)};
  const bool in_parts = config.train.local_steps == 1 && !config.pipeline.enabled();
  for (const Range& range : schedule::buckets(part_of(network.layout, own), config.exchange.bucket_bytes)) {
    // The whole gradient counts with its first float, which is final with the computation.
    sum.buckets.push_back(
        {range.size(), in_parts && range.begin > 0 ? final_share(network, range.begin) : 1.0});
    std::vector<schedule::Program>& programs = sum.programs[range.size()];
    if (programs.empty()) {
      PACELINE_ASSIGN_OR_RETURN(const schedule::Plan table, schedule::plan_of_run(config, range.size()));
      PACELINE_RETURN_IF_ERROR(schedule::check(table));
      programs = schedule::programs_of(table, config.cluster.gradient_encoding);
    }
    for (const schedule::Program& program : programs) sum.bytes_of_a_step += schedule::bytes_sent(program);
  }
  sum.final_at.assign(sum.buckets.size(), std::vector<double>(reducing_ranks(config), 0.0));
  sum.missing = threads();
  sums_.push_back(std::move(sum));
  return Status::ok();
}

Result<Reductions> Reductions::begin(const Plan& plan) {
  Reductions made(plan);
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(plan.config));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<StageSpec> stages, stages_of_run(plan.config, network));
  const std::vector<Range> held = held_by_stages(stages, plan.config.pipeline.stages);
  for (std::uint32_t s = 0; s < held.size(); ++s) {
    PACELINE_RETURN_IF_ERROR(made.add(network, s, held[s]));
  }
  return made;
}

std::optional<std::vector<Reductions::There>> Reductions::contribute(NodeId node, Ticks begins, Ticks ends) {
  const auto stages = static_cast<std::uint32_t>(sums_.size());
  Sum& sum = sums_[node.value % stages];
  const double length = to_seconds(ends - begins);
  for (std::size_t b = 0; b < sum.buckets.size(); ++b) {
    double& is_final = sum.final_at[b][node.value / stages];
    is_final = std::max(is_final, to_seconds(begins - Ticks()) + sum.buckets[b].final_at * length);
  }
  if (--sum.missing > 0) return std::nullopt;
  return reduce(node.value % stages);
}

std::vector<Reductions::There> Reductions::reduce(std::uint32_t stage) {
  Sum& sum = sums_[stage];
  const double per_float = plan_->costs.apply_ns_per_float * 1e-9;
  std::vector<double> free(reducing_ranks(plan_->config), 0.0);  // the exchange's thread
  for (std::size_t b = 0; b < sum.buckets.size(); ++b) {
    const auto floats = static_cast<double>(sum.buckets[b].floats);
    const double summed = per_float * floats * static_cast<double>(plan_->cluster.threads_per_node);
    for (std::size_t n = 0; n < free.size(); ++n) free[n] = std::max(free[n], sum.final_at[b][n]) + summed;
    free = schedule::reduction_times(sum.programs.at(sum.buckets[b].floats), sum.links, free);
    std::fill(sum.final_at[b].begin(), sum.final_at[b].end(), 0.0);
  }
  std::vector<There> there;
  for (std::uint32_t rank = 0; rank < free.size(); ++rank) {
    const double done = free[rank] + per_float * static_cast<double>(sum.floats);
    there.push_back({NodeId(static_cast<std::uint32_t>(rank * sums_.size()) + stage),
                     after(Ticks(), length_of(1e9 * done))});
  }
  sum.missing = threads();
  bytes_sent_ += sum.bytes_of_a_step;
  return there;
}

}  // namespace paceline::simulate
