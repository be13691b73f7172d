// For whom a node of an all-reduce waited in its sums, and for how long a new formation kept it from them, out of the
// buckets and the decisions of a trace. A bucket ends at every node once the last one has begun it, the ones before it
// are done and its floats have travelled:
//
//   node 0   |--- bucket 0 ---|- 1 -|   waits for node 1 until that begins the bucket; the rest is the sum itself
//   node 1         | bucket 0 |- 1 -|   has begun both together: nobody waits for it in bucket 1
//
// After a loss nobody sums until those that are left have met (docs/ALLREDUCE.md), and up to there all have waited for
// the lost one:
//
//   | sum, for the lost one | parted | formation | formed, connected | sum |
//
// Pure. Thread: any, once it is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "common/ids.h"
#include "common/trace/trace.h"

namespace paceline {

class SumWaits {
 public:
  // `stages`: of a group of nodes, 1 or more; those of the same stage sum together. `trace` outlives it.
  SumWaits(const trace::Trace& trace, std::uint32_t stages);

  // By worker: a node's first one stands for it.
  using Times = std::map<WorkerId, std::chrono::nanoseconds>;
  struct Parts {
    std::chrono::nanoseconds sum{0};
    std::chrono::nanoseconds formation{0};
    Times sum_for;        // of the sum; what is left of it was nobody's doing
    Times formation_for;  // of the formation: who was lost
  };
  // Of what workers of `node` waited from `begin` to `end` after the step of that clock. What is in neither part is the
  // node's own step, its report and the answer. `reported`: when the authority had taken its report, which the sum is
  // held to last until where the trace has none of its buckets.
  Parts of(NodeId node, Clock clock, Ticks begin, Ticks end, std::optional<Ticks> reported) const;

 private:
  struct Stretch {
    Ticks begin, end;
    std::chrono::nanoseconds length() const;
  };
  struct Formation {
    Stretch gathered;
    std::vector<NodeId> lost;
  };
  struct Begun {
    Stretch span;  // until it was done
    NodeId node;
  };
  using Key =
      std::tuple<std::uint32_t, Clock, std::int64_t, bool>;  // stage, step, bucket, whether it is copied
  void add_formations(const trace::Trace& trace);
  // Of a formation: until the node is connected and sums again.
  Ticks summed_again(NodeId node, const Formation& formation, Ticks end) const;
  void add_buckets(NodeId node, Clock clock, const Stretch& within, Parts& parts) const;
  const std::vector<BucketSpan>* spans_of(NodeId node) const;

  const std::uint32_t stages_;
  std::map<NodeId, const std::vector<BucketSpan>*> spans_;
  std::map<Key, std::vector<Begun>> begun_;
  std::vector<Formation> formations_;  // in the order of time
};

}  // namespace paceline
