// Where the differences (gradients with respect to activations) of a backward pass lie. One is needed from when the
// first of its readers has gone back until its own stage has: then another one takes its memory. Where several
// stages read an activation, the first to go back writes the difference, and what the others make is added.
//
//   stages   0 conv {images}   1 conv {0}   2 add {1, 0}   3 dense {2}
//   3 dense  reads slot 0      writes slot 1: the difference of 2
//   2 add    reads slot 1      leaves there the difference of 1, writes slot 0: that of 0
//   1 conv   reads slot 1      writes slot 2, which is added to slot 0
//   0 conv   reads slot 0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::cuda {

// A stage as the plan sees it, the first first; the last one's difference is given.
struct StageShape {
  std::vector<int> inputs;       // stages in front of it; kImages: none of them
  std::int64_t elements = 0;     // that it gives
  bool trained = false;          // it has a gradient of its own
  std::vector<bool> hands_on{};  // of each input: its difference may be the stage's own, in the same memory
};
constexpr int kImages = -1;

constexpr int kNoSlot = -1;

struct InputDifference {
  int slot = kNoSlot;      // that it is written to; kNoSlot: nobody needs it
  int added_to = kNoSlot;  // what it is then added to, if something is there already
};

struct StageDifferences {
  bool goes_back = false;  // false: neither it nor what is in front of it is trained
  int slot = kNoSlot;      // of what it gives
  std::vector<InputDifference> inputs;
};

struct DifferencePlan {
  std::vector<StageDifferences> stages;
  std::vector<std::int64_t> slots;  // elements of each
};

// Each stage but the last is read by one after it that is trained, or in front of one.
DifferencePlan plan_differences(std::span<const StageShape> stages);

}  // namespace paceline::cuda
