#include "common/schedule/planners.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/schedule/builder.h"

namespace paceline::schedule {
namespace {

std::vector<std::uint32_t> all_ranks(std::uint32_t ranks) {
  std::vector<std::uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

void ring(Builder& builder, const PlanRequest& request) {
  const std::vector<std::uint32_t> all = all_ranks(request.ranks);
  builder.scatter_ring(all, {0, request.floats}, request.borders.share);
  builder.gather_ring(all, {0, request.floats}, request.borders.share);
}

// What is cut in two, again and again.
struct Whole {
  Range range;
  double share = 0.5;  // of the first cut
};

// A block of 2^k ranks, [first, first + size), and what each of them has the sum of once it has been scattered.
struct Block {
  std::uint32_t first = 0;
  std::uint32_t size = 1;
  std::vector<Range> own;
};

// Between ranks that are `distance` apart within their block: who keeps the lower half of what it has, and both
// halves. Vectors halve while distances double, so the long messages go to near ranks.
struct CutInTwo {
  Range lower;
  Range upper;
};
CutInTwo halve(const Builder& builder, const Whole& whole) {
  const std::vector<Range> cut = builder.parts(whole.range, 2, whole.share);
  return {cut[0], cut[1]};
}

// The ranges that a rank of a block of `size` has after each halving, the whole first.
std::vector<Range> halvings(const Builder& builder, Whole whole, std::uint32_t rank, std::uint32_t size) {
  std::vector<Range> all = {whole.range};
  for (std::uint32_t distance = 1; distance < size; distance *= 2) {
    const CutInTwo cut = halve(builder, whole);
    whole = {(rank & distance) == 0 ? cut.lower : cut.upper, share_within(whole.share, 2)};
    all.push_back(whole.range);
  }
  return all;
}

void scatter_block(Builder& builder, Block& block, const Whole& whole) {
  std::size_t step = 0;
  for (std::uint32_t distance = 1; distance < block.size; distance *= 2, ++step) {
    for (std::uint32_t i = 0; i < block.size; ++i) {
      const std::uint32_t partner = i ^ distance;
      builder.add(block.first + i, block.first + partner,
                  halvings(builder, whole, partner, block.size)[step + 1]);
    }
  }
  for (std::uint32_t i = 0; i < block.size; ++i) {
    block.own.push_back(halvings(builder, whole, i, block.size).back());
  }
}

void gather_block(Builder& builder, const Block& block, const Whole& whole) {
  auto step = static_cast<std::size_t>(std::bit_width(block.size) - 1);
  for (std::uint32_t distance = block.size / 2; distance > 0; distance /= 2, --step) {
    for (std::uint32_t i = 0; i < block.size; ++i) {
      builder.move(block.first + i, block.first + (i ^ distance),
                   halvings(builder, whole, i, block.size)[step]);
    }
  }
}

Range intersection(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Other numbers of ranks than powers of two are a sum of them: each block scatters its sums, the smaller hand
// theirs to the next larger, the largest has them all, and back. With 3 ranks, rank 2 is a block of its own and
// sends everything, half each to 0 and 1.
void binary_blocks(Builder& builder, const PlanRequest& request) {
  const Whole whole{{0, request.floats}, request.borders.share};
  std::vector<Block> blocks;
  for (std::uint32_t first = 0; first < request.ranks;) {
    const std::uint32_t size = std::bit_floor(request.ranks - first);
    blocks.push_back({first, size, {}});
    first += size;
  }
  for (Block& block : blocks) scatter_block(builder, block, whole);
  // Every pair of ranks of two neighbouring blocks that have floats in common.
  const auto each_pair = [](const Block& larger, const Block& smaller, const auto& f) {
    for (std::uint32_t s = 0; s < smaller.size; ++s) {
      for (std::uint32_t l = 0; l < larger.size; ++l) {
        f(smaller.first + s, larger.first + l, intersection(smaller.own[s], larger.own[l]));
      }
    }
  };
  for (std::size_t b = blocks.size(); b-- > 1;) {
    each_pair(blocks[b - 1], blocks[b],
              [&](std::uint32_t small, std::uint32_t large, Range both) { builder.add(small, large, both); });
  }
  for (std::size_t b = 1; b < blocks.size(); ++b) {
    each_pair(blocks[b - 1], blocks[b], [&](std::uint32_t small, std::uint32_t large, Range both) {
      builder.move(large, small, both);
    });
  }
  for (const Block& block : blocks) gather_block(builder, block, whole);
}

// Rows first for one half of the vector, columns first for the other, so that the links along both are busy at
// the same time. After the first scatter, rank i of a line has the sum over that line of part i; the lines
// across it sum those. A tensor that is all there is goes to the same rank in either half.
void torus(Builder& builder, const PlanRequest& request, const Grid& grid) {
  using Line = std::vector<std::uint32_t>;
  std::vector<Line> along_rows(grid.rows);
  std::vector<Line> along_columns(grid.columns);
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) {
    along_rows[rank / grid.columns].push_back(rank);
    along_columns[rank % grid.columns].push_back(rank);
  }
  const double by_column = request.borders.share;
  const double by_row = share_within(by_column, grid.columns);
  const std::vector<Range> halves = builder.parts({0, request.floats}, 2, request.borders.share);
  struct Lines {
    const std::vector<Line>& all;
    double share;  // of the cut along each
  };
  struct Way {
    Lines first;
    Lines second;
    Range whole;
    std::vector<Range> cut;  // that the second lines sum
  };
  const Lines rows{along_rows, by_column};
  const Lines columns{along_columns, by_row};
  const Way ways[] = {
      {rows, columns, halves[0], builder.parts(halves[0], grid.columns, by_column)},
      {columns, rows, halves[1], builder.parts(halves[1], grid.rows, by_row)},
  };
  for (const auto& [first, second, whole, cut] : ways) {
    for (const Line& line : first.all) builder.scatter_ring(line, whole, first.share);
  }
  for (const auto& [first, second, whole, cut] : ways) {
    for (std::size_t i = 0; i < second.all.size(); ++i) {
      builder.scatter_ring(second.all[i], cut[i], second.share);
      builder.gather_ring(second.all[i], cut[i], second.share);
    }
  }
  for (const auto& [first, second, whole, cut] : ways) {
    for (const Line& line : first.all) builder.gather_ring(line, whole, first.share);
  }
}

// First within machines, then each part across them: 2 S (m - 1) / m leave each of m machines, whatever ranks it has.
// Of a machine with more ranks than the smallest one, each of those hands each part to who sums it within the machine.
void hierarchical(Builder& builder, const PlanRequest& request, const std::vector<std::uint32_t>& machines) {
  const Range whole{0, request.floats};
  std::map<std::uint32_t, std::vector<std::uint32_t>> members;  // by machine
  for (std::uint32_t rank = 0; rank < request.ranks; ++rank) members[machines[rank]].push_back(rank);
  std::size_t fewest = request.ranks;
  for (const auto& [machine, ranks] : members) fewest = std::min(fewest, ranks.size());
  const double share = request.borders.share;
  const double share_across = share_within(share, static_cast<std::uint32_t>(fewest));
  const std::vector<Range> cut = builder.parts(whole, static_cast<std::uint32_t>(fewest), share);
  std::vector<std::vector<std::uint32_t>> within;
  for (const auto& [machine, ranks] : members) {
    for (std::size_t i = fewest; i < ranks.size(); ++i) {
      // Not all at the same one.
      for (std::size_t k = 0; k < fewest; ++k) {
        const std::size_t part = (i + k) % fewest;
        builder.add(ranks[i], ranks[part], cut[part]);
      }
    }
    within.emplace_back(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(fewest));
  }
  for (const auto& ranks : within) builder.scatter_ring(ranks, whole, share);
  for (std::size_t i = 0; i < fewest; ++i) {
    std::vector<std::uint32_t> across;
    for (const auto& ranks : within) across.push_back(ranks[i]);
    builder.scatter_ring(across, cut[i], share_across);
    builder.gather_ring(across, cut[i], share_across);
  }
  for (const auto& ranks : within) builder.gather_ring(ranks, whole, share);
  for (const auto& [machine, ranks] : members) {
    for (std::size_t i = fewest; i < ranks.size(); ++i) {
      for (std::size_t k = 0; k < fewest; ++k) {
        const std::size_t part = (i + k) % fewest;
        builder.move(ranks[part], ranks[i], cut[part]);
      }
    }
  }
}

// Rank i sums part i, which all send to it straight, in the order of ranks after i.
void direct(Builder& builder, const PlanRequest& request) {
  const std::vector<Range> cut = builder.parts({0, request.floats}, request.ranks, request.borders.share);
  for (std::uint32_t k = 1; k < request.ranks; ++k) {
    for (std::uint32_t i = 0; i < request.ranks; ++i) builder.add((i + k) % request.ranks, i, cut[i]);
  }
  for (std::uint32_t k = 1; k < request.ranks; ++k) {
    for (std::uint32_t i = 0; i < request.ranks; ++i) builder.move(i, (i + k) % request.ranks, cut[i]);
  }
}

// Up to rank 0, in lg P steps, and down again.
void tree(Builder& builder, const PlanRequest& request) {
  const Range whole{0, request.floats};
  std::uint32_t distance = 1;
  for (; distance < request.ranks; distance *= 2) {
    for (std::uint32_t i = 0; i + distance < request.ranks; i += 2 * distance) {
      builder.add(i + distance, i, whole);
    }
  }
  for (distance /= 2; distance > 0; distance /= 2) {
    for (std::uint32_t i = 0; i + distance < request.ranks; i += 2 * distance) {
      builder.move(i, i + distance, whole);
    }
  }
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kHalvingDoubling:
      return "halving_doubling";
    case Algorithm::kBinaryBlocks:
      return "binary_blocks";
    case Algorithm::kTorus:
      return "torus";
    case Algorithm::kHierarchical:
      return "hierarchical";
    case Algorithm::kDirect:
      return "direct";
    case Algorithm::kTree:
      return "tree";
  }
  return "";
}

Grid squarest_grid(std::uint32_t ranks) {
  Grid grid{1, ranks};
  for (std::uint32_t rows = 1; rows * rows <= ranks; ++rows) {
    if (ranks % rows == 0) grid = {rows, ranks / rows};
  }
  return grid;
}

Result<Plan> make_plan(const PlanRequest& request) {
  const Algorithm algorithm = request.algorithm != Algorithm::kAuto ? request.algorithm
                              : request.floats <= kTinyFloats       ? Algorithm::kTree
                              : request.floats <= kSmallFloats      ? Algorithm::kBinaryBlocks
                                                                    : Algorithm::kRing;
  const std::string ranks = std::to_string(request.ranks) + " ranks";
  Builder builder(request.ranks, request.segment_floats, request.borders);
  switch (algorithm) {
    case Algorithm::kAuto:  // is one of the others by now
    case Algorithm::kRing:
      ring(builder, request);
      break;
    case Algorithm::kHalvingDoubling:
      if (!std::has_single_bit(request.ranks)) {
        return invalid_argument("halving_doubling with " + ranks +
                                ", expected a power of two; binary_blocks takes any");
      }
      [[fallthrough]];  // one block
    case Algorithm::kBinaryBlocks:
      binary_blocks(builder, request);
      break;
    case Algorithm::kTorus:
    case Algorithm::kHierarchical: {
      if (algorithm == Algorithm::kHierarchical && !request.machines.empty()) {
        PACELINE_ASSERT(request.machines.size() == request.ranks, "a machine for each rank");
        hierarchical(builder, request, request.machines);
        break;
      }
      const Grid grid = request.grid.value_or(squarest_grid(request.ranks));
      if (std::uint64_t{grid.rows} * grid.columns != request.ranks) {
        return invalid_argument("a grid of " + std::to_string(grid.rows) + " x " +
                                std::to_string(grid.columns) + " with " + ranks +
                                ", expected rows x columns to be that");
      }
      if (algorithm == Algorithm::kTorus) {
        torus(builder, request, grid);
        break;
      }
      std::vector<std::uint32_t> machines;
      for (std::uint32_t rank = 0; rank < request.ranks; ++rank) machines.push_back(rank / grid.columns);
      hierarchical(builder, request, machines);
      break;
    }
    case Algorithm::kDirect:
      direct(builder, request);
      break;
    case Algorithm::kTree:
      tree(builder, request);
      break;
  }
  return Plan{name_of(algorithm), request.floats, std::move(builder).finish()};
}

}  // namespace paceline::schedule
