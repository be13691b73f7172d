#include "simulate/pipelines.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/network/network.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"
#include "common/schedule/awaited_stage.h"
#include "common/trace/bound.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

double bytes_per_second(const std::vector<std::optional<std::int64_t>>& bandwidth, std::uint32_t node) {
  if (bandwidth.empty()) return 0.0;
  const auto& of_node = bandwidth.size() == 1 ? bandwidth.front() : bandwidth.at(node);
  return of_node ? static_cast<double>(*of_node) : 0.0;
}

// Of an average micro-batch, between two nodes: the slower of the two ends counts.
double seconds(const RunConfig& config, std::uint32_t node, std::uint32_t next, double floats) {
  double longest = 0.0;
  for (const std::uint32_t end : {node, next}) {
    const double each = bytes_per_second(config.simulate.network.bandwidth, end);
    if (each > 0.0) longest = std::max(longest, floats * sizeof(float) / each);
  }
  return longest;
}

}  // namespace

Result<Pipelines> Pipelines::begin(const Plan& plan) {
  const RunConfig& config = plan.config;
  const std::vector<double> none(config.pipeline.stages, 0.0);
  const std::uint32_t count = config.pipeline.stages;
  Pipelines made(plan.cluster.nodes, {count,
                                      config.pipeline.micro_batches,
                                      0.0,
                                      std::vector<std::int64_t>(count, 0),
                                      none,
                                      none,
                                      none,
                                      {},
                                      {},
                                      config.pipeline.chunks_of_stage()});
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<StageSpec> stages, stages_of_run(config, network));
  PACELINE_ASSIGN_OR_RETURN(made.rows_, plan_of_run(config, network, stages));
  const std::vector<std::int64_t> sizes =
      schedule::micro_batch_sizes(group_samples(config), made.rows_.micro_batches);
  const double average = static_cast<double>(group_samples(config)) / static_cast<double>(sizes.size());
  for (const std::int64_t size : sizes) made.weights_.push_back(static_cast<double>(size) / average);
  made.links_.resize(plan.cluster.nodes / count);
  const std::vector<double> costs = costs_by_products(network);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const auto layer = [&costs](std::size_t i) { return costs.begin() + static_cast<std::ptrdiff_t>(i); };
    made.shares_.push_back(std::accumulate(layer(stages[s].first), layer(stages[s].last), 0.0));
    made.summary_.layers.push_back(static_cast<std::int64_t>(stages[s].last - stages[s].first));
    made.summary_.parameters.push_back(stages[s].parameters.size());
    const auto chunk = static_cast<std::uint32_t>(s / count);
    made.summary_.peak_activation_bytes[s % count] += activation_bytes(
        network, stages[s], schedule::kept(made.rows_.stages[s % count], chunk), sizes.front());
    if (s + 1 == stages.size()) break;
    const double forward = average * static_cast<double>(floats_of(network, stages[s].outputs));
    const double back =
        average * static_cast<double>(floats_of(network, only_trained(network, stages[s].outputs)));
    for (std::size_t group = 0; group < made.links_.size(); ++group) {
      const auto first = static_cast<std::uint32_t>(group * count);
      const auto node = static_cast<std::uint32_t>(first + s % count);
      const auto next = static_cast<std::uint32_t>(first + (s + 1) % count);
      made.links_[group].push_back(
          {to_seconds(config.simulate.network.latency + config.simulate.costs.message),
           seconds(config, node, next, forward), seconds(config, node, next, back)});
    }
  }
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (double& share : made.shares_) share /= all;
  if (config.run.trace) {  // of a worker's share the half, as of a node (worker/node_trace.h)
    const std::size_t most = trace::worker_events(config.run.trace_events, plan.cluster.workers()) / 2;
    made.passes_.assign(plan.cluster.nodes, schedule::PassSpans(most));
  }
  return made;
}

Pipelines::Done Pipelines::run(std::size_t first, Clock clock) {
  const auto stages = static_cast<std::size_t>(summary_.stages);
  // In whole nanoseconds from the first stage's begin on: a run's instants are large for what is added up here.
  const Ticks zero = *members_[first].begins;
  std::vector<schedule::StageTimes> each;
  std::vector<double> begins;
  for (std::size_t chunk = 0; chunk < shares_.size(); ++chunk) {
    const double length = to_seconds(members_[first + chunk % stages].length);
    const double whole =
        length * static_cast<double>(stages) * shares_[chunk] / static_cast<double>(rows_.micro_batches);
    each.push_back({kForwardShare * whole, (1.0 - kForwardShare) * whole});
  }
  for (std::size_t s = 0; s < stages; ++s) {
    Member& stage = members_[first + s];
    begins.push_back(to_seconds(*std::exchange(stage.begins, std::nullopt) - zero));
  }
  const schedule::PipelineTimes ran = schedule::times(rows_, each, weights_, begins, links_[first / stages]);
  Done done{NodeId(static_cast<std::uint32_t>(first)), {}};
  for (std::size_t s = 0; s < stages; ++s) {
    const double ends = ran.ends(s);
    done.ends.push_back(zero + length_of(1e9 * ends));
    members_[first + s].waited = length_of(1e9 * std::max(0.0, ends - begins[s] - ran.busy[s]));
    note(s, ran.rows[s], begins[s]);
    for (const schedule::PassTime& pass : ran.rows[s]) {
      if (passes_.empty()) break;
      const Ticks begin = zero + length_of(1e9 * pass.begin);
      passes_[first + s].add({begin, zero + length_of(1e9 * pass.end) - begin, clock, pass.row});
    }
  }
  all_ += static_cast<double>(stages) * ran.ends(0);
  return done;
}

void Pipelines::note(std::size_t stage, const std::vector<schedule::PassTime>& passes, double begins) {
  double free = begins;
  for (const schedule::PassTime& pass : passes) {
    auto& idle = schedule::awaited_stage(pass.row) == schedule::Awaited::kNext
                     ? summary_.idle_for_next_seconds
                     : summary_.idle_for_previous_seconds;
    idle[stage] += pass.begin - free;
    summary_.busy_seconds[stage] += pass.end - pass.begin;
    free = pass.end;
  }
}

void Pipelines::add_passes(trace::Trace& to) const {
  for (std::uint32_t node = 0; node < passes_.size(); ++node)
    to.stages.push_back({NodeId(node), passes_[node].in_order(), passes_[node].left_out()});
}

PipelineSummary Pipelines::summary() const {
  PipelineSummary summary = summary_;
  const double busy = std::accumulate(summary.busy_seconds.begin(), summary.busy_seconds.end(), 0.0);
  if (all_ > 0.0) summary.bubble_share = 1.0 - busy / all_;
  return summary;
}

}  // namespace paceline::simulate
