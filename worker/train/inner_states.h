// InnerStates: what the inner optimizers of a node's workers have come to, and what their last rounds have added after
// what left (local_steps.h), kept for workers that go on after a checkpoint. The servers save parameters and the outer
// optimizer's state. What a worker has of its own is written by its own process, on its own machine:
//
//   RUN/inner_state/0.1-v000000000118     of worker 0.1, when it had completed its round stamped 117: a model file
//                                         (common/params/model_file.h) with the optimizer's vectors as tensors,
//                                         and what of its round 117 is in its next delta (exchange.fragments)
//
// A worker does not know of which version the next checkpoint will be, but of which it may be. Of those a file is
// on disk before the round in front of them is reported, so under bsp before any checkpoint of them can begin.
//
//   checkpoint.every_clocks: 10    versions 10, 20, 30 …        keep_best: those that are evaluated, too
//   checkpoint.every: 1m           one each minute: as old as that, where a process is killed
//   the process ends in order      the last two: a stopped run's last version is one of them under bsp; in
//                                  fragments the largest threshold more, for servers that go back, and the newest is
//                                  marked: a stopped run's version is that of the worker that was furthest
//
// Who goes on at clock c takes the newest of version c or older, from memory or from a file: memory, where the
// process has outlived its servers. Files of newer versions are removed then. Under another policy than bsp a
// worker that had a lead goes on with the state of round c all the same. But what a round adds to the next one's delta
// is of that version alone, or of the worker's last round if it ended in order: of another it is in parameters already,
// or is computed again. Where gradients are applied on arrival nobody can tell which, and it is lost. There a stopped
// run's version is that of the slowest, and who ended in order ahead of it goes on with its last state.
//
// What the checkpoint knows of a worker is what counts. One that was lost, or not there, when it was saved begins anew,
// though there be a file of just that version: its round in front of that was dropped, and others have done it. So does
// one that is lost and comes back while the servers go on, since what it has is of rounds long ago. Its grant says so.
//
// Memory: of each worker the state twice more (in fragments the largest threshold more), where checkpoints are written,
// and a copy of it each round. Disk: checkpoint.keep + kLagMax files of each worker, and as many more, since servers
// may take several rounds to write one and leave others out.
//
// Thread: a worker's training thread, each its own, one session's after another's.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "worker/train/local_steps.h"

namespace paceline {

class InnerStates {
 public:
  static constexpr std::int64_t kLagMax = 8;

  // For the workers of `node`, whose parameters have this layout. `now`: what time it is, any thread. `config`
  // outlives it.
  InnerStates(const RunConfig& config, NodeId node, const Layout& layout, Log log, Ticks (*now)());

  // What of a worker's former rounds is in what the run goes on from: kNone of one that was not there
  // (Grant::starts_over).
  enum class Former { kNone, kCounts };
  // Worker `thread` of the node is granted its first round of this session, stamped `clock`. Where its former rounds
  // count `steps` goes on with the state that it had there, and the log says which one that is; else it stays as it is,
  // and older files are removed.
  void begin(std::uint32_t thread, Clock clock, Former former, LocalSteps& steps);
  // It has completed its round stamped `clock`, which is not reported yet. What cannot be written is said in the
  // log, and no more.
  void completed(std::uint32_t thread, Clock clock, const LocalSteps& steps);
  // Its training is over, for this session at least; in order: all that it had begun was reported.
  void end(std::uint32_t thread, bool in_order);

 private:
  struct State {
    Version version;
    OptimizerImage image;
    std::vector<float> carried = {};
    bool last = false;  // the worker has ended in order with it
    bool written = false;
  };
  struct Worker {
    std::deque<State> last;  // the oldest first
    std::optional<Ticks> saved_at;
  };

  const char* goes_on_with() const;  // for the log
  bool may_be_saved(const Worker& worker, Version version) const;
  State state_at(Version version, const LocalSteps& steps) const;
  void keep(Worker& worker, State state);
  void write(std::uint32_t thread, State& state);
  std::optional<State> read(std::uint32_t thread, const std::filesystem::path& file) const;
  std::vector<std::filesystem::path> files(std::uint32_t thread) const;
  std::string name(std::uint32_t thread) const;

  const RunConfig& config_;
  const NodeId node_;
  const Log log_;
  Ticks (*const now_)();
  const std::int64_t floats_;
  const bool carries_;     // rounds add to the next one's delta, and it is known to which
  const bool ends_ahead_;  // eager: a run is stopped at a version that its workers may be far ahead of
  const bool goes_on_;     // that, or the inner optimizer has a state
  const bool keeps_;       // and there are checkpoints; a run that is resumed need write none any more
  const std::size_t last_max_;
  const std::string whose_;  // the model's name in the files: of which run's worker
  const std::filesystem::path folder_;
  std::vector<Worker> workers_;
};

}  // namespace paceline
