// For whom a stage of a pipeline waited in its steps, out of the passes of a trace. It waits for what the stage beside
// it makes; where that one waits itself, it is for whom that one waits, and so on to a stage that computes, or has not
// begun the step. So a slow stage is named by all of its group, however far they are from it.
//
//   stage 0  F0 ......................... B0     waits for stage 1 where that has a pass, else for stage 2
//   stage 1     F0 ................. B0
//   stage 2        F0--------B0-----
//
// Pure. Thread: any, once it is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/schedule/pass_span.h"
#include "common/trace/trace.h"

namespace paceline {

class StageWaits {
 public:
  // `stages`: of a group of nodes, 1 or more. `trace` outlives it.
  StageWaits(const trace::Trace& trace, std::uint32_t stages);

  // By worker, of its wait of `length` in the step of `clock`, which it began at `begin`: for how long it was that
  // one's doing; together `length`. Empty: the trace has none of its passes.
  using Times = std::map<WorkerId, std::chrono::nanoseconds>;
  Times of(WorkerId worker, Clock clock, Ticks begin, std::chrono::nanoseconds length) const;
  // Whether a stage has several: then the first and the last one wait for each other, too.
  bool has_chunks() const { return last_chunk_ > 0; }

 private:
  using Spans = std::vector<schedule::PassSpan>;
  struct Stretch {
    Ticks begin, end;
  };
  // Whose pass `row` waits for, on `node`, and which; none: for nobody's.
  struct Awaited {
    NodeId node;
    schedule::PipelineRow row;
  };
  std::optional<Awaited> awaited(NodeId node, const schedule::PipelineRow& row) const;
  // When what `needed_by` waited for had been done. None: that is not there.
  std::optional<Ticks> made(const Awaited& awaited, const schedule::PassSpan& needed_by) const;
  // Adds `gap`, in which `node` waited for a pass of `beside`. `further`: so many stages more may be blamed for it:
  // with several chunks each they are a ring.
  void blame(NodeId node, NodeId beside, const Stretch& gap, std::uint32_t further, Times& times) const;

  const std::uint32_t stages_;
  std::uint32_t last_chunk_ = 0;  // of a stage
  std::map<NodeId, const Spans*> spans_;
};

}  // namespace paceline
