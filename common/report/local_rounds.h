// What a run's rounds of local steps were, and of how many samples each node's were, as its summary says it: for the
// table and the page of `paceline report`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/report/run_summary.h"

namespace paceline {

struct LocalRounds {
  std::int64_t rounds = 0;    // applied
  double mini_batches = 0.0;  // of a round, as iterations count them
  bool differ = false;        // from round to round: that is their mean
  // How many mini-batches were computed, where it is known to be fewer than the iterations (train.local_time). Phases
  // of a part of the run do not say that.
  std::optional<std::int64_t> computed = {};
};

// nullopt: there were no local steps.
std::optional<LocalRounds> local_rounds(const RunSummary& summary);

// Of a node's threads, as batch_range() has it.
struct NodeSamples {
  std::uint32_t node = 0;
  std::string last;    // "224", "96 to 104"
  std::string in_run;  // from the smallest to the largest
};

// In a round, or a mini-batch where there are no local steps, of each node; none where all had as many.
std::vector<NodeSamples> samples_of_nodes(const RunSummary& summary);

}  // namespace paceline
