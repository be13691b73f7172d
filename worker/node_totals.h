// What a node has done so far: the sum of its sessions (session.h), as its report at the end says it. Phases
// and walls add up, so what no phase owns stays as small a part of the wall as in each session; the time
// between two sessions is in neither.
//
// Thread: one at a time.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/wire/messages.h"
#include "worker/train/work_done.h"

namespace paceline {

class NodeTotals {
 public:
  NodeTotals(NodeId node, std::uint32_t threads);

  // What one of its workers has done in a session.
  void add(const WorkDone& done);
  const wire::NodeReport& report() const { return report_; }

 private:
  wire::NodeReport report_;
};

}  // namespace paceline
