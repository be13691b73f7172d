// The planners: each a pure function from ranks and floats to a plan (plan.h). All sum an element at one rank,
// or in one order, and spread that sum, so that every rank has the same bits; the order of additions depends on
// nothing but the arguments. P ranks, S bytes; a step is what cannot begin before another rank has done its own:
//
//   algorithm          steps               bytes sent by a rank   source
//   ring               2 (P - 1)           2 S (P - 1) / P        Patarasuk, Yuan 2009, §2
//   halving_doubling   2 lg P              2 S (P - 1) / P        Rabenseifner 2004; Goyal et al. 2017, §4
//   binary_blocks      2 lg P + 2 blocks   2 S or a little more   Rabenseifner 2004; Goyal et al. 2017, §4
//   torus (m x n)      2 (m + n - 2)       2 S (P - 1) / P        Ying et al. 2018, §2.2
//   hierarchical       2 (m + n - 2)       2 S (P - 1) / P        Jia et al. 2018, §4.3; m machines of n ranks
//   direct             2                   2 S (P - 1) / P
//   tree               2 lg P              up to S lg P           binomial
//
// Long transfers are cut into segments, so that one is added, or passed on, while the next one travels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/params/borders.h"
#include "common/schedule/algorithm.h"
#include "common/schedule/plan.h"
#include "common/status.h"

namespace paceline::schedule {

// Ranks r = row * columns + column.
struct Grid {
  std::uint32_t rows = 1;
  std::uint32_t columns = 1;
  bool operator==(const Grid&) const = default;
};

// The most nearly square grid of so many ranks, no more rows than columns; 1 x ranks where ranks is a prime.
Grid squarest_grid(std::uint32_t ranks);

struct PlanRequest {
  Algorithm algorithm = Algorithm::kRing;
  std::uint32_t ranks = 1;   // >= 1
  std::int64_t floats = 0;   // >= 0
  std::optional<Grid> grid;  // torus, hierarchical: rows are machines; nullopt: squarest_grid()
  std::int64_t segment_floats = 64 * 1024;  // of one transfer at most, >= 1
  // hierarchical: of each rank, whose links to others of the same are the fast ones, instead of the grid; empty: none.
  std::vector<std::uint32_t> machines = {};
  Borders borders = {};  // where what a rank sums may begin and end
};

// kAuto: by size. For up to kTinyFloats tree, whose messages are fewest; for up to kSmallFloats binary_blocks, where
// the number of steps is what counts; else ring, where bytes are (tests/bench/exchange/allreduce_vs_gloo.cc).
// Errors: kInvalidArgument, halving_doubling with ranks that are no power of two, a grid of other than `ranks`.
inline constexpr std::int64_t kTinyFloats = 4 * 1024;
inline constexpr std::int64_t kSmallFloats = 64 * 1024;
[[nodiscard]] Result<Plan> make_plan(const PlanRequest& request);

const char* name_of(Algorithm algorithm);

}  // namespace paceline::schedule
