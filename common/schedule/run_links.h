// What is assumed of a run's links and nodes, for how long its all-reduce takes (reduction_times.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/schedule/reduction_times.h"

namespace paceline::schedule {

// By simulate.network and simulate.costs.
inline Links links_of_run(const SimulateSection& simulate) {
  Links links{to_seconds(simulate.network.latency),
              {},
              to_seconds(simulate.costs.message),
              simulate.costs.apply * 1e-9};
  for (const auto& bandwidth : simulate.network.bandwidth) {
    links.per_byte.push_back(bandwidth ? 1.0 / static_cast<double>(*bandwidth) : 0.0);
  }
  return links;
}

// Of the nodes that sum stage `stage` (common/config/reducing.h); without pipeline.stages 0, of all.
inline Links links_of_stage(const RunConfig& config, std::uint32_t stage) {
  Links links = links_of_run(config.simulate);
  if (links.per_byte.size() == 1) return links;
  std::vector<double> own;
  for (std::size_t node = stage; node < links.per_byte.size(); node += config.pipeline.stages)
    own.push_back(links.per_byte[node]);
  links.per_byte = std::move(own);
  return links;
}

}  // namespace paceline::schedule
