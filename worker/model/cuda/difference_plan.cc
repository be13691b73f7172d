#include "worker/model/cuda/difference_plan.h"

#include <algorithm>
#include <string>

#include "common/assert.h"

namespace paceline::cuda {
namespace {

class Slots {
 public:
  int take(std::int64_t elements) {
    const auto free = std::find(taken_.begin(), taken_.end(), false);
    const auto slot = static_cast<std::size_t>(free - taken_.begin());
    if (free == taken_.end()) {
      taken_.push_back(false);
      elements_.push_back(0);
    }
    taken_[slot] = true;
    elements_[slot] = std::max(elements_[slot], elements);
    return static_cast<int>(slot);
  }
  void give_back(int slot) { taken_[static_cast<std::size_t>(slot)] = false; }
  std::vector<std::int64_t> elements() const { return elements_; }

 private:
  std::vector<bool> taken_;
  std::vector<std::int64_t> elements_;  // the most that each has held
};

std::vector<bool> those_that_go_back(std::span<const StageShape> stages) {
  std::vector<bool> go_back;
  for (const StageShape& stage : stages) {
    go_back.push_back(stage.trained || std::any_of(stage.inputs.begin(), stage.inputs.end(), [&](int input) {
                        return input != kImages && go_back[static_cast<std::size_t>(input)];
                      }));
  }
  return go_back;
}

// Of the inputs of `stage`, whose own difference is in `own`; `slot_of`: of each stage's difference.
std::vector<InputDifference> plan_inputs(std::span<const StageShape> stages, const StageShape& stage, int own,
                                         const std::vector<bool>& go_back, std::vector<int>& slot_of,
                                         Slots& slots) {
  std::vector<InputDifference> planned;
  bool kept = false;  // `own` is handed on
  for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
    InputDifference& input = planned.emplace_back();
    if (stage.inputs[k] == kImages) continue;
    const auto from = static_cast<std::size_t>(stage.inputs[k]);
    if (!go_back[from]) continue;
    if (slot_of[from] != kNoSlot) {
      input = {slots.take(stages[from].elements), slot_of[from]};
    } else if (!kept && k < stage.hands_on.size() && stage.hands_on[k]) {
      kept = true;
      input.slot = slot_of[from] = own;
    } else {
      input.slot = slot_of[from] = slots.take(stages[from].elements);
    }
  }
  for (const InputDifference& input : planned) {
    if (input.added_to != kNoSlot) slots.give_back(input.slot);
  }
  if (!kept) slots.give_back(own);
  return planned;
}

}  // namespace

DifferencePlan plan_differences(std::span<const StageShape> stages) {
  const std::vector<bool> go_back = those_that_go_back(stages);
  DifferencePlan plan;
  plan.stages.resize(stages.size());
  Slots slots;
  std::vector<int> slot_of(stages.size(), kNoSlot);
  if (!stages.empty()) slot_of.back() = slots.take(stages.back().elements);
  for (std::size_t i = stages.size(); i-- > 0;) {
    if (!go_back[i]) continue;
    PACELINE_ASSERT(slot_of[i] != kNoSlot, "nobody reads stage " + std::to_string(i));
    plan.stages[i] = {true, slot_of[i], plan_inputs(stages, stages[i], slot_of[i], go_back, slot_of, slots)};
  }
  plan.slots = slots.elements();
  return plan;
}

}  // namespace paceline::cuda
