// Where a backward pass keeps its differences (worker/model/cuda/difference_plan.h).
#include "worker/model/cuda/difference_plan.h"

#include <catch2/catch.hpp>

using namespace paceline;
using cuda::DifferencePlan;
using cuda::kImages;
using cuda::kNoSlot;
using cuda::StageShape;

TEST_CASE("the_differences_of_a_chain_take_turns_in_two_slots_as_large_as_their_largest") {
  const std::vector<StageShape> chain = {
      {{kImages}, 40, true}, {{0}, 30, true}, {{1}, 20, false}, {{2}, 10, true}};
  const DifferencePlan plan = plan_differences(chain);
  CHECK(plan.slots == std::vector<std::int64_t>{30, 40});
  for (std::size_t i = 0; i < chain.size(); ++i) {
    CHECK(plan.stages[i].slot == static_cast<int>((3 - i) % 2));
    CHECK(plan.stages[i].inputs[0].slot == (i == 0 ? kNoSlot : static_cast<int>((4 - i) % 2)));
  }
}

TEST_CASE("what_nothing_trained_stands_in_front_of_does_not_go_back") {
  const DifferencePlan plan =
      plan_differences(std::vector<StageShape>{{{kImages}, 40, false}, {{0}, 30, true}});
  CHECK_FALSE(plan.stages[0].goes_back);
  CHECK(plan.stages[1].inputs[0].slot == kNoSlot);
}

// The example of the header.
TEST_CASE("a_sum_leaves_its_difference_to_one_input_and_a_second_reader_adds_to_the_firsts") {
  const DifferencePlan plan = plan_differences(std::vector<StageShape>{
      {{kImages}, 8, true}, {{0}, 8, true}, {{1, 0}, 8, false, {true, true}}, {{2}, 4, true}});
  CHECK(plan.stages[3].slot == 0);
  CHECK(plan.stages[2].slot == 1);
  CHECK(plan.stages[2].inputs[0].slot == 1);
  CHECK(plan.stages[2].inputs[1].slot == 0);
  CHECK(plan.stages[1].inputs[0].slot == 2);
  CHECK(plan.stages[1].inputs[0].added_to == 0);
  CHECK(plan.stages[0].slot == 0);
  CHECK(plan.slots == std::vector<std::int64_t>{8, 8, 8});
}

TEST_CASE("a_value_added_to_itself_is_left_and_added") {
  const DifferencePlan plan = plan_differences(
      std::vector<StageShape>{{{kImages}, 8, true}, {{0, 0}, 8, false, {true, true}}, {{1}, 4, true}});
  CHECK(plan.stages[1].inputs[0].slot == plan.stages[1].slot);
  CHECK(plan.stages[1].inputs[1].added_to == plan.stages[1].slot);
  CHECK(plan.stages[1].inputs[1].slot != plan.stages[1].slot);
}
