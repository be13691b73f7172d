// What is assumed of a run's links and nodes, for how long its all-reduce takes (reduction_times.h).
#pragma once

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

}  // namespace paceline::schedule
