// Steps that the nodes of a group take together, each its part, waiting for the others on the way: stages of a pipeline
// (pipelines.h), members of a norm group (norm_groups.h). When they end follows once all have begun. A group is so many
// nodes in a row, of one thread each; all of them stay to the end.
//
// Thread: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"

namespace paceline::simulate {

class GroupSteps {
 public:
  virtual ~GroupSteps() = default;

  // The worker of `node` begins its step of `clock` at `begins`, and would take `length` if it had the network and its
  // own samples for itself. Once all of its group have begun: when each of them is done, from the group's first node
  // on.
  struct Done {
    NodeId first;
    std::vector<Ticks> ends;
  };
  std::optional<Done> begin_step(NodeId node, Clock clock, Ticks begins, std::chrono::nanoseconds length) {
    const std::size_t first = node.value / size_ * size_;
    members_[node.value].begins = begins;
    members_[node.value].length = length;
    for (std::size_t member = first; member < first + size_; ++member) {
      if (!members_[member].begins) return std::nullopt;
    }
    return run(first, clock);
  }

  // In its last step, for how long `node` waited for the others.
  std::chrono::nanoseconds waited(NodeId node) const { return members_[node.value].waited; }

 protected:
  struct Member {
    std::optional<Ticks> begins;  // of the step that not all have begun
    std::chrono::nanoseconds length{0};
    std::chrono::nanoseconds waited{0};
  };
  // Groups of `size`, which divides `nodes`.
  GroupSteps(std::size_t size, std::size_t nodes) : size_(size), members_(nodes) {}
  GroupSteps(GroupSteps&&) = default;
  GroupSteps& operator=(GroupSteps&&) = default;

  // The step of the group from node `first` on, all of which have begun: forgets that, and says how long each waited.
  virtual Done run(std::size_t first, Clock clock) = 0;

  std::size_t size_;
  std::vector<Member> members_;  // by node
};

}  // namespace paceline::simulate
