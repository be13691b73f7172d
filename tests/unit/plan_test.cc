// All-reduce plans: every planner's, for every number of ranks up to 64, replayed by the checker; and what the
// checker refuses.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "common/schedule/check.h"
#include "common/schedule/first_adds.h"
#include "common/schedule/halves.h"
#include "common/schedule/planners.h"
#include "common/schedule/print.h"
#include "common/schedule/reduction_times.h"
#include "common/schedule/run_plan.h"

namespace paceline::schedule {
namespace {

Plan planned(const PlanRequest& request) {
  Result<Plan> plan = make_plan(request);
  REQUIRE(plan.is_ok());
  return std::move(plan).value();
}

// The worked example of plan.h, four times as long.
Plan example() { return planned({Algorithm::kRing, 2, 128, {}}); }

std::string refusal(const Plan& plan) { return check(plan).message(); }

TEST_CASE("every plan sums every float once from every rank") {
  const auto algorithm =
      GENERATE(Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kBinaryBlocks, Algorithm::kTorus,
               Algorithm::kHierarchical, Algorithm::kDirect, Algorithm::kTree);
  for (std::uint32_t ranks = 1; ranks <= 64; ++ranks) {
    if (algorithm == Algorithm::kHalvingDoubling && !std::has_single_bit(ranks)) continue;
    for (const std::int64_t floats : {0, 17, 997}) {
      const Plan plan = planned({algorithm, ranks, floats, {}, /*segment_floats=*/100});
      INFO(plan.name << ", " << ranks << " ranks, " << floats << " floats");
      REQUIRE(plan.ranks.size() == ranks);
      REQUIRE(check(plan).message() == "");
    }
  }
}

TEST_CASE("as many ranks as there may be sum every float once") {
  const auto algorithm = GENERATE(Algorithm::kHalvingDoubling, Algorithm::kTorus);
  const Plan plan = planned({algorithm, 1024, 4096, {}});
  CHECK(check(plan).message() == "");
}

// Both halves in turn are the all-reduce, and every float has one owner, who sums it.
TEST_CASE("every plan falls into sums and copies, with a keeper or without") {
  const auto algorithm =
      GENERATE(Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kBinaryBlocks, Algorithm::kTorus,
               Algorithm::kHierarchical, Algorithm::kDirect, Algorithm::kTree);
  const bool keeps = GENERATE(false, true);
  for (std::uint32_t ranks = 1; ranks <= 20; ++ranks) {
    if (algorithm == Algorithm::kHalvingDoubling && !std::has_single_bit(ranks)) continue;
    struct Size {
      std::int64_t floats;
      Borders borders;  // of tensors, which no part cuts
    };
    for (const auto& [floats, borders] :
         {Size{0, {}}, Size{17, {}}, Size{997, {}}, Size{997, {{0, 1, 40, 500, 960, 997}}},
          Size{997, {{0, 997}, 0.1}}}) {
      const Plan plan = planned({algorithm, ranks, floats, {}, /*segment_floats=*/100, {}, borders});
      INFO(plan.name << ", " << ranks << " ranks, " << floats << " floats");
      Result<Halves> halves = halves_of(plan);
      REQUIRE(halves.status().message() == "");
      std::vector<std::uint32_t> keepers(ranks);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) keepers[rank] = (rank + 1) % ranks;
      if (keeps) halves->keep(keepers, /*segment_floats=*/100);
      REQUIRE(check(halves->whole()).message() == "");
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto adds = [](const Transfer& row) { return row.kind == TransferKind::kAdd; };
        REQUIRE(std::none_of(halves->copies.ranks[rank].begin(), halves->copies.ranks[rank].end(), adds));
        std::int64_t owned = 0;
        for (const Range& range : halves->owned[rank]) {
          owned += range.size();
          if (borders.at.empty()) continue;
          REQUIRE(std::binary_search(borders.at.begin(), borders.at.end(), range.begin));
          REQUIRE(std::binary_search(borders.at.begin(), borders.at.end(), range.end));
        }
        const bool evenly = algorithm == Algorithm::kRing || algorithm == Algorithm::kDirect;
        if (evenly && borders.at.empty()) REQUIRE(owned <= (floats / 16 / ranks + 1) * 16);
      }
    }
  }
}

// Of as many vectors as ranks, each of which is one tensor, each rank owns one.
TEST_CASE("tensors that are vectors of their own are spread over all ranks") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kBinaryBlocks,
                                  Algorithm::kTorus, Algorithm::kHierarchical, Algorithm::kDirect);
  const bool blocks = algorithm == Algorithm::kHalvingDoubling || algorithm == Algorithm::kBinaryBlocks;
  Layout layout;
  REQUIRE(layout.add("alone", {4096}));
  for (std::uint32_t ranks = 1; ranks <= 20; ++ranks) {
    if (blocks && !std::has_single_bit(ranks)) continue;
    RunConfig config;
    config.cluster.nodes = ranks;
    config.exchange.kind = ExchangeKind::kAllreduce;
    config.exchange.shard_optimizer = true;
    config.exchange.algorithm = algorithm;
    config.train.optimizer.kind = OptimizerKind::kLars;
    std::vector<int> owned(ranks);
    for (std::uint32_t bucket = 0; bucket < ranks; ++bucket) {
      const Borders borders = borders_of_bucket(config, layout, {0, 4096}, bucket, ranks);
      const Result<Plan> plan = plan_of_run(config, 4096, {}, {}, {}, borders);
      INFO(name_of(algorithm) << ", " << ranks << " ranks, bucket " << bucket);
      REQUIRE(plan.is_ok());
      const Result<Halves> halves = halves_of(*plan);
      REQUIRE(halves.status().message() == "");
      REQUIRE(check(halves->whole()).message() == "");
      for (std::uint32_t rank = 0; rank < ranks; ++rank) owned[rank] += halves->owned[rank].empty() ? 0 : 1;
    }
    CAPTURE(name_of(algorithm), ranks);
    CHECK(owned == std::vector<int>(ranks, 1));
  }
}

TEST_CASE("a row begins what none has touched before, and what it does not begin is there before") {
  const auto first_of = [](Algorithm algorithm, std::uint32_t ranks, std::uint32_t rank) {
    const auto plan = make_plan({algorithm, ranks, 32, {}});
    REQUIRE(plan.is_ok());
    return first_adds(plan->ranks[rank], 32);
  };
  const FirstAdds ring = first_of(Algorithm::kRing, 2, 0);
  CHECK(ring.rows == std::vector<bool>{false, true, false, false});
  CHECK(ring.rest == std::vector<Range>{{16, 32}});
  const FirstAdds leaf = first_of(Algorithm::kTree, 2, 1);
  CHECK(leaf.rows == std::vector<bool>{false, false});
  CHECK(leaf.rest == std::vector<Range>{{0, 32}});
  CHECK(first_of(Algorithm::kTree, 2, 0).rest.empty());
  CHECK(first_of(Algorithm::kRing, 1, 0).rest == std::vector<Range>{{0, 32}});
}

TEST_CASE("a rank's keeper is sent its sums, after the last that is added to them") {
  Halves halves = *halves_of(example());
  halves.keep({1, 0});
  const Rows& rows = halves.sums.ranks[0];
  CHECK(halves.owned == std::vector<std::vector<Range>>{{{0, 64}}, {{64, 128}}});
  REQUIRE(rows.size() == 4);
  CHECK(to_string(rows[2]) == "send 0..64 to 1");
  CHECK(rows[2].after == std::vector<std::uint32_t>{1});
  CHECK(to_string(rows[3]) == "receive 64..128 from 1");
}

TEST_CASE("a share is kept by the next rank that has one itself") {
  CHECK(keepers_of({true, false, true, false}, /*keeps=*/true) == std::vector<std::uint32_t>{2, 2, 0, 0});
  CHECK(keepers_of({true, false, true, false}, /*keeps=*/false) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(keepers_of({false, true}, /*keeps=*/true) == std::vector<std::uint32_t>{1, 1});
}

TEST_CASE("a keeper is sent sums in segments") {
  Halves halves = *halves_of(example());
  halves.keep({1, 0}, /*segment_floats=*/48);
  const Rows& rows = halves.sums.ranks[0];
  REQUIRE(rows.size() == 6);
  CHECK(to_string(rows[2]) == "send 0..48 to 1");
  CHECK(to_string(rows[3]) == "send 48..64 to 1");
  CHECK(check(halves.whole()).message() == "");
}

TEST_CASE("a plan that copies before it sums has no halves") {
  Plan plan = example();
  Rows& rows = plan.ranks[0];
  rows.front().after = {static_cast<std::uint32_t>(rows.size() - 1)};
  CHECK_THAT(halves_of(plan).status().message(), Catch::Contains("a sum of rank"));
}

TEST_CASE("every grid of a torus sums every float once") {
  for (const Grid grid : {Grid{1, 6}, Grid{6, 1}, Grid{2, 3}, Grid{3, 2}, Grid{4, 4}, Grid{5, 7}}) {
    const Plan plan = planned({Algorithm::kTorus, grid.rows * grid.columns, 3001, grid, 100});
    CHECK(check(plan).message() == "");
  }
}

TEST_CASE("machines of any sizes sum every float once, and no more than needs be leaves each of them") {
  const std::vector<std::uint32_t> machines = {0, 1, 0, 1, 2, 0, 2, 0};  // 4, 2 and 2 ranks
  PlanRequest request{Algorithm::kHierarchical, 8, 3072, {}, 100, machines};
  const Plan plan = planned(request);
  CHECK(check(plan).message() == "");
  std::vector<std::int64_t> left(3);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    for (const Transfer& row : plan.ranks[rank]) {
      if (row.kind == TransferKind::kSend && machines[row.peer] != machines[rank]) {
        left[machines[rank]] += row.range.size();
      }
    }
  }
  CHECK(left == std::vector<std::int64_t>(3, 2 * 3072 * 2 / 3));
  // Each of the two that are too many gives half of its floats to each of those that sum, and is given as much.
  for (const std::uint32_t rank : {5U, 7U}) CHECK(floats_sent(plan.ranks[rank]) == 3072);
  CHECK(floats_sent(plan.ranks[0]) == floats_sent(plan.ranks[2]));
  for (std::uint32_t count = 1; count <= 12; ++count) {
    request = {Algorithm::kHierarchical, count, 997, {}, 100, {}};
    for (std::uint32_t rank = 0; rank < count; ++rank) request.machines.push_back(rank * rank % 5);
    CHECK(check(planned(request)).message() == "");
  }
}

// Patarasuk and Yuan: no rank can send less than 2 S (P - 1) / P.
TEST_CASE("ring, torus, halving-doubling and direct send the least there is to send") {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kTorus, Algorithm::kHalvingDoubling, Algorithm::kDirect}) {
    const Plan plan = planned({algorithm, 16, 16 * 16 * 16 * 2, {}});
    for (const Rows& rows : plan.ranks) CHECK(floats_sent(rows) == 2 * 15 * 16 * 16 * 2);
  }
}

TEST_CASE("three ranks in binary blocks are two and one") {
  const Plan plan = planned({Algorithm::kBinaryBlocks, 3, 32, {}});
  CHECK(to_string(plan) ==
        "binary_blocks, 3 ranks, 32 floats\n"
        "rank 0: sends 48 floats\n"
        "  0  send 16..32 to 1\n"
        "  1  add 0..16 from 1\n"
        "  2  add 0..16 from 2, after 1\n"
        "  3  send 0..16 to 2, after 2\n"
        "  4  send 0..16 to 1, after 2\n"
        "  5  receive 16..32 from 1, after 0\n"
        "rank 1: sends 48 floats\n"
        "  0  add 16..32 from 0\n"
        "  1  send 0..16 to 0\n"
        "  2  add 16..32 from 2, after 0\n"
        "  3  send 16..32 to 2, after 2\n"
        "  4  receive 0..16 from 0, after 1\n"
        "  5  send 16..32 to 0, after 2\n"
        "rank 2: sends 32 floats\n"
        "  0  send 0..16 to 0\n"
        "  1  send 16..32 to 1\n"
        "  2  receive 0..16 from 0, after 0\n"
        "  3  receive 16..32 from 1, after 1\n");
}

TEST_CASE("a planner says what it cannot plan for") {
  CHECK(make_plan({Algorithm::kHalvingDoubling, 6, 100, {}}).status().message() ==
        "halving_doubling with 6 ranks, expected a power of two; binary_blocks takes any");
  CHECK(make_plan({Algorithm::kTorus, 6, 100, Grid{2, 2}}).status().message() ==
        "a grid of 2 x 2 with 6 ranks, expected rows x columns to be that");
  CHECK(squarest_grid(12) == Grid{3, 4});
  CHECK(squarest_grid(7) == Grid{1, 7});
}

TEST_CASE("the checker sees a row that does not wait") {
  Plan plan = example();
  plan.ranks[0][2].after.clear();
  CHECK(refusal(plan) ==
        "ring: rank 0, row 2 (send 0..64 to 1): does not wait for row 1, which writes the same");
  plan = example();
  plan.ranks[1][2].after.clear();
  CHECK(refusal(plan) == "ring: rank 1, row 2 (receive 0..64 from 0): overwrites what row 1 still reads");
}

// However the plan is: one edge taken away is seen, whichever it is.
TEST_CASE("no edge of a plan is there for nothing") {
  const Plan whole = planned({Algorithm::kTorus, 6, 600, {}, 40});
  for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
    for (std::size_t row = 0; row < whole.ranks[rank].size(); ++row) {
      for (std::size_t edge = 0; edge < whole.ranks[rank][row].after.size(); ++edge) {
        Plan plan = whole;
        auto& after = plan.ranks[rank][row].after;
        after.erase(after.begin() + static_cast<std::ptrdiff_t>(edge));
        REQUIRE_FALSE(check(plan).is_ok());
      }
    }
  }
}

// Neither rank sends before it has heard.
TEST_CASE("the checker sees ranks that wait for each other") {
  Plan plan = example();
  Rows& rows = plan.ranks[0];
  std::swap(rows[0], rows[1]);
  rows[1].after = {0};
  rows[2].after = {0};
  rows[3].after = {1};
  REQUIRE(check(plan).message() == "");
  plan.ranks[1][1].after = {0};
  CHECK(refusal(plan) == "ring: rank 0, row 0 (add 0..64 from 1): never comes to pass");
}

TEST_CASE("the checker sees rows that do not fit together") {
  Plan plan = example();
  plan.ranks[1][0].range.end = 127;
  CHECK(refusal(plan).find("what comes is rank 0, row 0 (send 64..128 to 1)") != std::string::npos);

  plan = example();
  plan.ranks[1].pop_back();
  CHECK(refusal(plan) == "ring: rank 0, row 3 (receive 64..128 from 1): never comes to pass");

  plan = example();
  for (Rows& rows : plan.ranks) rows.resize(2);  // nothing is gathered
  CHECK(refusal(plan) == "ring: rank 0 ends without the floats 64..128 of rank 1");

  plan = example();
  plan.ranks[0][3].kind = TransferKind::kAdd;
  CHECK(refusal(plan).find("adds a rank's floats a second time") != std::string::npos);

  plan = example();
  plan.ranks[0][1].kind = TransferKind::kReceive;
  CHECK(refusal(plan).find("overwrites a rank's floats that are not in what comes") != std::string::npos);
}

TEST_CASE("the checker sees rows that are out of bounds") {
  Plan plan = example();
  plan.ranks[0][0].peer = 2;
  CHECK(refusal(plan) == "ring: rank 0, row 0 (send 64..128 to 2): expected another rank of 2");
  plan.ranks[0][0].peer = 0;
  CHECK(refusal(plan) == "ring: rank 0, row 0 (send 64..128 to 0): expected another rank of 2");
  plan = example();
  plan.ranks[0][0].range.end = 129;
  CHECK(refusal(plan) == "ring: rank 0, row 0 (send 64..129 to 1): expected floats of 128");
  plan = example();
  plan.ranks[0][1].after = {1};
  CHECK(refusal(plan).find("waits for a row that does not come before it") != std::string::npos);
}

// The worked example of reduction_times.h.
TEST_CASE("a ring of two takes two latencies and two halves") {
  const auto programs = programs_of(planned({Algorithm::kRing, 2, 32, {}}));
  CHECK(reduction_times(programs, {0.5, {1.0 / 64}}) == std::vector{3.0, 3.0});
  CHECK(reduction_times(programs, {0.5, {1.0 / 64}}, std::vector{0.0, 10.0}) == std::vector{12.5, 13.0});
  // Of a link of half the bandwidth both directions take twice as long, and a thread adds before it sends on.
  CHECK(reduction_times(programs, {0.5, {1.0 / 64, 1.0 / 32}}) == std::vector{5.0, 5.0});
  CHECK(reduction_times(programs, {0.5, {1.0 / 64}, 0.0, 1.0}) == std::vector{19.0, 19.0});
}

// Thakur, Rabenseifner and Gropp 2005, section 4: whole messages, and no time for messages and additions.
TEST_CASE("plans take the time of their formulas") {
  constexpr double kLatency = 1.0;
  constexpr double kPerByte = 1.0 / 1024;
  for (const double ranks : {4.0, 16.0, 64.0}) {
    const auto count = static_cast<std::uint32_t>(ranks);
    const std::int64_t floats = 64 * 1024;
    const double bytes = 4.0 * static_cast<double>(floats);
    const auto time = [&](Algorithm algorithm) {
      const auto plan = planned({algorithm, count, floats, {}, floats});
      const auto ends = reduction_times(programs_of(plan), {kLatency, {kPerByte}});
      return *std::max_element(ends.begin(), ends.end());
    };
    const double moved = 2.0 * bytes * (ranks - 1.0) / ranks * kPerByte;
    CHECK(time(Algorithm::kRing) == Approx(2.0 * (ranks - 1.0) * kLatency + moved));
    CHECK(time(Algorithm::kHalvingDoubling) == Approx(2.0 * std::log2(ranks) * kLatency + moved));
    CHECK(time(Algorithm::kTree) == Approx(2.0 * std::log2(ranks) * (kLatency + bytes * kPerByte)));
  }
}

}  // namespace
}  // namespace paceline::schedule
