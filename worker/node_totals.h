// What a node has done so far: the sum of its sessions (session.h), as its report at the end says it. Phases
// and walls add up, so what no phase owns stays as small a part of the wall as in each session; the time
// between two sessions is in neither.
//
// Thread: one at a time.
#pragma once

#include <cstdint>

#include "common/ids.h"
#include "common/wire/messages.h"

namespace paceline {

class NodeTotals {
 public:
  NodeTotals(NodeId node, std::uint32_t threads);

  // What one of its workers has done in a session; of `parameter_reads`, `server_reads` waited for a server.
  void add(const wire::WorkerReport& worker, std::int64_t parameter_reads, std::int64_t server_reads);
  const wire::NodeReport& report() const { return report_; }

 private:
  wire::NodeReport report_;
};

}  // namespace paceline
