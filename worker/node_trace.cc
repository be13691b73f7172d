#include "worker/node_trace.h"

#include <filesystem>
#include <system_error>

#include "common/trace/bound.h"
#include "common/trace/trace_file.h"

namespace paceline {

namespace {

// The workers' half is also for the nodes of an all-reduce.
std::size_t events_of_each(const RunConfig& config) {
  const bool reduces = config.exchange.kind == ExchangeKind::kAllreduce;
  return trace::worker_events(config.run.trace_events,
                              config.cluster.cluster().workers() + (reduces ? config.cluster.nodes : 0));
}

}  // namespace

NodeTrace::NodeTrace(const RunConfig& config, NodeId node)
    : config_(config), node_(node), buckets_(events_of_each(config)) {
  std::size_t most = events_of_each(config);
  if (config.pipeline.enabled()) {  // passes are of the worker's share
    most /= 2;
    passes_.emplace(most);
  }
  for (std::uint32_t t = 0; t < config.cluster.threads_per_node; ++t) threads_.emplace_back(most);
}

void NodeTrace::add(const BucketSpan& span) {
  const std::lock_guard lock(mutex_);
  buckets_.add(span);
}

Status NodeTrace::write() const {
  const std::filesystem::path run(config_.run.out);
  std::error_code error;
  std::filesystem::create_directories(run, error);
  if (error) return unavailable("cannot create " + run.string() + ": " + error.message());
  trace::Trace part;
  part.processes.push_back(trace::this_process(node_));
  for (std::uint32_t t = 0; t < threads_.size(); ++t) {
    part.workers.push_back({WorkerId(node_, t), threads_[t].in_order(), threads_[t].left_out()});
  }
  if (passes_) part.stages.push_back({node_, passes_->in_order(), passes_->left_out()});
  if (config_.exchange.kind == ExchangeKind::kAllreduce) {
    const std::lock_guard lock(mutex_);
    part.buckets.push_back({node_, buckets_.in_order(), buckets_.left_out()});
  }
  return trace::write_trace(run / trace::part_name(node_), part);
}

}  // namespace paceline
