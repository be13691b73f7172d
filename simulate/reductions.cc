#include "simulate/reductions.h"

#include <algorithm>
#include <utility>

#include "common/network/network.h"
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
    const StageSpec behind = stage_of_layers(network, first, network.layers.size());
    if (behind.parameters.size() == 0 || behind.parameters.begin > begin) continue;
    const auto done = static_cast<double>(cost_of(network, behind).multiply_adds);
    return kForwardShare + (1.0 - kForwardShare) * done / all;
  }
  return 1.0;
}

}  // namespace

Reductions::Reductions(const Plan& plan)
    : plan_(&plan), links_(schedule::links_of_run(plan.config.simulate)), missing_(plan.cluster.workers()) {}

Result<Reductions> Reductions::begin(const Plan& plan) {
  Reductions made(plan);
  const RunConfig& config = plan.config;
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  for (const Range& range : schedule::buckets(network.layout, config.exchange.bucket_bytes)) {
    // The whole gradient counts with its first float, which is final with the computation.
    const bool overlaps = range.begin > 0 && config.train.local_steps == 1;
    made.buckets_.push_back({range.size(), overlaps ? final_share(network, range.begin) : 1.0});
    std::vector<schedule::Program>& programs = made.programs_[range.size()];
    if (programs.empty()) {
      PACELINE_ASSIGN_OR_RETURN(const schedule::Plan table, schedule::plan_of_run(config, range.size()));
      PACELINE_RETURN_IF_ERROR(schedule::check(table));
      programs = schedule::programs_of(table, config.cluster.gradient_encoding);
    }
    for (const schedule::Program& program : programs) {
      for (const schedule::Transfer& row : program.rows) {
        if (row.kind != schedule::TransferKind::kSend) continue;
        made.bytes_of_a_step_ += static_cast<std::int64_t>(program.bytes_of(row));
      }
    }
  }
  made.final_.assign(made.buckets_.size(), std::vector<double>(plan.cluster.nodes, 0.0));
  return made;
}

std::optional<std::vector<Ticks>> Reductions::contribute(NodeId node, Ticks begins, Ticks ends) {
  const double length = to_seconds(ends - begins);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    double& is_final = final_[b][node.value];
    is_final = std::max(is_final, to_seconds(begins - Ticks()) + buckets_[b].final_at * length);
  }
  if (--missing_ > 0) return std::nullopt;
  return reduce();
}

std::vector<Ticks> Reductions::reduce() {
  const double per_float = plan_->costs.apply_ns_per_float * 1e-9;
  std::vector<double> free(plan_->cluster.nodes, 0.0);  // the exchange's thread
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto floats = static_cast<double>(buckets_[b].floats);
    const double summed = per_float * floats * static_cast<double>(plan_->cluster.threads_per_node);
    for (std::size_t n = 0; n < free.size(); ++n) free[n] = std::max(free[n], final_[b][n]) + summed;
    free = schedule::reduction_times(programs_.at(buckets_[b].floats), links_, free);
    std::fill(final_[b].begin(), final_[b].end(), 0.0);
  }
  std::vector<Ticks> there;
  for (const double done : free) {
    there.push_back(after(Ticks(), length_of(1e9 * (done + per_float * static_cast<double>(plan_->floats)))));
  }
  missing_ = plan_->cluster.workers();
  ++steps_;
  return there;
}

}  // namespace paceline::simulate
