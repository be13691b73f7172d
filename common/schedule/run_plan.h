// The plan that a run's configuration asks for. A rank is a node, or the node of a group (common/config/reducing.h).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/config/reducing.h"
#include "common/config/run_config.h"
#include "common/schedule/planners.h"

namespace paceline::schedule {

// Where what a rank steps of a bucket may end, with exchange.shard_optimizer: under lars and lamb where tensors do.
// `number`: the bucket's. Of `ranks` neighbouring buckets of one tensor each rank has one, as far as the algorithm sums
// as much at each.
inline Borders borders_of_bucket(const RunConfig& config, const Layout& layout, const Range& bucket,
                                 std::int64_t number, std::uint32_t ranks) {
  if (!config.exchange.shard_optimizer) return {};
  Borders borders = borders_of(layout, bucket, config.train.optimizer);
  if (!borders.at.empty()) borders.share = (static_cast<double>(number % ranks) + 0.5) / ranks;
  return borders;
}

// Instead of kAuto, where nothing is measured: itself, by size (make_plan()). Where each rank steps its own part, of
// what sums as much at each, as what is measured does.
inline Algorithm algorithm_by_size(const RunConfig& config, std::int64_t floats, std::uint32_t ranks) {
  if (!config.exchange.shard_optimizer) return Algorithm::kAuto;
  return floats <= kSmallFloats && std::has_single_bit(ranks) ? Algorithm::kBinaryBlocks : Algorithm::kRing;
}

// For a bucket of so many floats. `chosen`: instead of kAuto's choice by size. `machines`: of each
// rank, where that is known. `ranks`: nullopt: all; else those that are left, of which no grid is known, and
// what takes a power of two becomes binary blocks. `borders`: PlanRequest's. Errors: make_plan()'s, which validated
// configurations do not have.
[[nodiscard]] inline Result<Plan> plan_of_run(const RunConfig& config, std::int64_t floats,
                                              std::optional<Algorithm> chosen = {},
                                              const std::vector<std::uint32_t>& machines = {},
                                              std::optional<std::uint32_t> ranks = {}, Borders borders = {}) {
  const std::uint32_t of_run = reducing_ranks(config);
  const bool all = !ranks || *ranks == of_run;
  PlanRequest request{chosen.value_or(config.exchange.algorithm), ranks.value_or(of_run), floats, {}};
  if (request.algorithm == Algorithm::kAuto)
    request.algorithm = algorithm_by_size(config, floats, request.ranks);
  if (!all && request.algorithm == Algorithm::kHalvingDoubling) request.algorithm = Algorithm::kBinaryBlocks;
  if (all && config.exchange.grid.size() == 2)
    request.grid = {config.exchange.grid[0], config.exchange.grid[1]};
  if (!request.grid) request.machines = machines;
  request.borders = std::move(borders);
  return make_plan(request);
}

}  // namespace paceline::schedule
