// Steps that the nodes of a group take together, each its part, waiting for the others on the way: stages of a pipeline
// (pipelines.h), members of a norm group (norm_groups.h). When they end follows once all have begun. A group is so many
// nodes in a row, of one thread each; all of them stay to the end.
//
// Thread: one.
#pragma once

#include <chrono>
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
  // own samples for itself. Once all of its group have begun: when each of them is done, from the group's first node on.
  struct Done {
    NodeId first;
    std::vector<Ticks> ends;
  };
  virtual std::optional<Done> begin_step(NodeId node, Clock clock, Ticks begins,
                                         std::chrono::nanoseconds length) = 0;

  // In its last step, for how long `node` waited for the others.
  virtual std::chrono::nanoseconds waited(NodeId node) const = 0;
};

}  // namespace paceline::simulate
