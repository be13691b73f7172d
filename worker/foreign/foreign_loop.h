// ForeignLoop: a training loop that is not ours as a Task. A Task is called by the worker's training thread
// (worker/train); a user's loop calls us. Here the two meet, and each waits for the other:
//
//   the loop's thread                       the training thread
//   begin() waits                           load(): until the loop asks for a round          BATCH
//   begin() returns parameters, gradient <- compute(): offers them, and waits                COMPUTE_GRADS
//   computes; copy(n, values)            -> copies them into the gradient, while the loop goes on
//   final_from(n)                        -> the exchange takes [n, end), after what was copied before
//   finish(metric)                       -> compute() returns it, after both
//
// So grants, caches, exchange, phases and a change of servers are the training thread's, as for any task.
// It costs two wake-ups a round. The gradient is written where it leaves from, the parameters are read
// where they lie: nothing is copied, but what the loop has elsewhere and lends.
//
// The training thread waits in compute() for as long as the loop computes: until finish(), or until the
// loop has given up(). A round that was offered when servers were lost ends like any other, and does not
// count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/metric.h"
#include "common/status.h"
#include "common/task/task.h"

namespace paceline {

class ForeignStage;

class ForeignLoop {
 public:
  // What the loop computes with until finish() or give_up().
  struct Round {
    Step step;
    std::span<const float> parameters;
    std::span<float> gradient;
  };
  enum class Waited { kRound, kTimedOut, kOver };

  // ---- the loop's thread Waits for a round, until `patience` is over; nullopt: as long as it takes.
  // kOver: node_ended() was called. Not while a round is under way.
  Waited begin(std::optional<std::chrono::nanoseconds> patience, Round& round);
  bool under_way() const;
  // Elements from `begin` on are to be these values, a -0.0 as 0.0, which stay as they are until the round has
  // ended: begin() has returned another, or the node has ended. While a round is under way.
  void copy(std::int64_t begin, std::span<const float> values);
  // Elements [begin, end) of the gradient are final. While a round is under way.
  void final_from(std::int64_t begin);
  // Of the round under way.
  void finish(const Metric& metric);
  // No further round: the one under way, and any that would come, ends with `why`. The first call counts.
  void give_up(Status why);
  // Waits for node_ended(); nullopt where `patience` is over before.
  std::optional<Status> await_end(std::optional<std::chrono::nanoseconds> patience);

  // ---- the training thread: Task::load(), Task::compute()
  Status load();
  Result<Metric> compute(const Step& step, std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from);

  // ---- the node's thread: it has ended, and so; there is no training thread any more.
  void node_ended(Status how);
  // How; nullopt before. Thread: any.
  std::optional<Status> ended() const;
  // Whether give_up() was called, and with what; OK: not. Thread: any.
  bool gave_up() const { return !given_up().is_ok(); }
  Status given_up() const;

 private:
  enum class State {
    kNone,     // the training thread is elsewhere
    kOffered,  // it waits in compute() for begin()
    kTaken,    // the loop computes
    kDone      // finish() has been called; compute() is to return
  };

  // What the loop has done of the gradient of the round under way.
  struct Piece {
    std::int64_t begin;
    std::span<const float> values;  // to be copied there; empty: all from there on is final
  };
  void add(Piece piece);
  // Carries it out; returns when the loop has finished, or has given up.
  void follow(std::unique_lock<std::mutex>& lock, std::span<float> gradient, const FinalFrom& final_from);

  bool wait(std::unique_lock<std::mutex>& lock, std::optional<std::chrono::nanoseconds> patience,
            const std::function<bool()>& come);

  mutable std::mutex mutex_;
  std::condition_variable loop_;     // what the loop's thread waits for
  std::condition_variable trainer_;  // what the training thread waits for
  State state_ = State::kNone;
  bool asked_ = false;  // the loop waits in begin()
  Round round_;
  std::deque<Piece> pieces_;
  Metric metric_;
  Status given_up_;
  std::optional<Status> ended_;
};

// Tasks of one node of one thread whose rounds are a ForeignLoop's.
class ForeignTasks final : public TaskFactory {
 public:
  // Measures parameters; nullopt: nothing does.
  using Evaluate = std::function<Result<Metric>(std::span<const float> parameters)>;

  // `loop` and `stage` outlive this. `stage`: null where the whole model is one. `initial`: empty where they are never
  // asked for, as of any node but 0. `evaluate` may be empty: then a model has no measure, a metric of no samples.
  ForeignTasks(ForeignLoop& loop, Layout layout, std::vector<float> initial, Evaluate evaluate,
               ForeignStage* stage = nullptr);

  const Layout& layout() const override { return layout_; }
  // Once: the values are let go of then. Servers of a later generation have theirs and take none, so they
  // are given NaN.
  void initialize(std::span<float> parameters) const override;
  Range trained_by(NodeId node) const override;
  void meet(std::shared_ptr<PeerChannels> peers) override;
  std::vector<PeerBounds> peer_bounds(NodeId node) const override;
  void record_passes(schedule::PassSpans* into) override;
  StageReport stage_report() const override;
  std::uint64_t data_fingerprint() const override;
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override;
  Result<std::unique_ptr<Task>> make_evaluator() override;

 private:
  ForeignLoop& loop_;
  ForeignStage* const stage_;
  const Layout layout_;
  mutable std::mutex mutex_;
  mutable std::vector<float> initial_;
  const Evaluate evaluate_;
};

}  // namespace paceline
