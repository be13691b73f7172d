// DecisionLog: what the authority takes and decides, kept for a trace. It looks on at the core's events and
// actions, in the daemon and in the simulator alike, and adds what neither says: for whom a worker is held
// from its first instant on, and whose step, loss or threshold let it go.
//
//   worker 0.0 reports clock 4 and is 2 ahead of 0.1, threshold 1    report, hold {clock 5, by 0.1}
//   0.1 reports clock 3                                              report, apply, grant {0.1, clock 4},
//                                                                    grant {0.0, clock 5, held, by 0.1}
//
// Bounded: the newest are kept. Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "common/newest.h"
#include "common/sync/engine.h"
#include "common/trace/trace.h"

namespace paceline::trace {

class DecisionLog {
 public:
  // Keeps the newest: of what each iteration has (report, hold, grant, apply) nine tenths of `most`, of all
  // else, which is rare and explains long stretches of them, a tenth.
  explicit DecisionLog(std::size_t most) : kept_(most - most / 10), rare_(most / 10) {}

  // The core has taken `event`, emitted `actions`, and stands as `engine` says.
  void stepped(const sync::Event& event, const std::vector<sync::Action>& actions, const sync::Engine& engine,
               Ticks now);
  // What is none of the core's.
  void evaluation(NodeId node, Version version, Ticks now);
  void evaluated(Version version, Ticks now);
  void saving(Version version, Ticks now);
  // The last one of these is over: written or given up.
  void saved(Ticks now);
  // Of an all-reduce: a formation is over, since `lost` is, if that is known; and the next one goes on from `version`.
  void parted(std::optional<NodeId> lost, Ticks now);
  void formed(Version version, Ticks now);

  // Everything, as part of a trace.
  void add_to(Trace& trace) const;

 private:
  struct Seen;
  void add(Decision decision, Ticks now);
  void held(const sync::HeldNotice& held, Ticks now);
  // What an action adds; the others add nothing.
  template <typename Action>
  void took(const Action&, const sync::Engine&, Seen&, Ticks) {}
  void took(const sync::Grant& grant, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::Apply& apply, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::WindowClosed& window, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::ThresholdChanged& changed, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::PolicySwitched& policy, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::FinishWorker& finish, const sync::Engine& engine, Seen& seen, Ticks now);
  void took(const sync::RunFailed& failed, const sync::Engine& engine, Seen& seen, Ticks now);

  Newest<Decision> kept_;
  Newest<Decision> rare_;
  Ticks last_{std::numeric_limits<std::int64_t>::min()};  // files are in the order of time
  std::optional<double> lpr_;
  std::optional<Ticks> first_grant_;
  std::optional<Version> saving_;
};

}  // namespace paceline::trace
