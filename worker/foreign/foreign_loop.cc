#include "worker/foreign/foreign_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/assert.h"
#include "worker/foreign/foreign_stage.h"

namespace paceline {

namespace {

// -0.0 + 0.0 is 0.0, and all else stays as it is.
void copy_adding_zero(std::span<const float> in, std::span<float> out) {
  std::transform(in.begin(), in.end(), out.begin(), [](float value) { return value + 0.0F; });
}

}  // namespace

// Who waits is woken behind the lock: it would wait for that at once, and be woken a second time.

bool ForeignLoop::wait(std::unique_lock<std::mutex>& lock, std::optional<std::chrono::nanoseconds> patience,
                       const std::function<bool()>& come) {
  if (patience) return loop_.wait_for(lock, *patience, come);
  loop_.wait(lock, come);
  return true;
}

ForeignLoop::Waited ForeignLoop::begin(std::optional<std::chrono::nanoseconds> patience, Round& round) {
  std::unique_lock lock(mutex_);
  PACELINE_ASSERT(state_ != State::kTaken, "a round is under way");
  if (!std::exchange(asked_, true)) {
    lock.unlock();
    trainer_.notify_one();
    lock.lock();
  }
  // Who comes back later has asked meanwhile.
  if (!wait(lock, patience, [this] { return state_ == State::kOffered || ended_; })) return Waited::kTimedOut;
  if (state_ != State::kOffered) return Waited::kOver;
  asked_ = false;
  state_ = State::kTaken;
  round = round_;
  return Waited::kRound;
}

bool ForeignLoop::under_way() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kTaken;
}

void ForeignLoop::add(Piece piece) {
  {
    const std::lock_guard lock(mutex_);
    PACELINE_ASSERT(state_ == State::kTaken, "no round is under way");
    pieces_.push_back(piece);
  }
  trainer_.notify_one();
}

void ForeignLoop::copy(std::int64_t begin, std::span<const float> values) {
  if (!values.empty()) add({begin, values});
}

void ForeignLoop::final_from(std::int64_t begin) { add({begin, {}}); }

void ForeignLoop::finish(const Metric& metric) {
  {
    const std::lock_guard lock(mutex_);
    PACELINE_ASSERT(state_ == State::kTaken, "no round is under way");
    metric_ = metric;
    state_ = State::kDone;
  }
  trainer_.notify_one();
}

void ForeignLoop::give_up(Status why) {
  const std::lock_guard lock(mutex_);
  if (given_up_.is_ok()) given_up_ = std::move(why);
  if (state_ == State::kTaken) state_ = State::kOffered;  // nobody computes it any more
  trainer_.notify_one();
}

std::optional<Status> ForeignLoop::await_end(std::optional<std::chrono::nanoseconds> patience) {
  std::unique_lock lock(mutex_);
  wait(lock, patience, [this] { return ended_.has_value(); });
  return ended_;
}

// What the loop does between two rounds, as getting its mini-batch, is the worker's BATCH.
Status ForeignLoop::load() {
  std::unique_lock lock(mutex_);
  trainer_.wait(lock, [this] { return asked_ || !given_up_.is_ok(); });
  return given_up_;
}

Result<Metric> ForeignLoop::compute(const Step& step, std::span<const float> parameters,
                                    std::span<float> gradient, const FinalFrom& final_from) {
  std::unique_lock lock(mutex_);
  PACELINE_ASSERT(state_ == State::kNone, "one training thread");
  round_ = {step, parameters, gradient};
  state_ = State::kOffered;
  lock.unlock();
  loop_.notify_one();
  lock.lock();
  follow(lock, gradient, final_from);
  pieces_.clear();
  const bool done = std::exchange(state_, State::kNone) == State::kDone;
  if (!done) return given_up_;
  return metric_;
}

void ForeignLoop::follow(std::unique_lock<std::mutex>& lock, std::span<float> gradient,
                         const FinalFrom& final_from) {
  const auto lost = [this] { return state_ == State::kOffered && !given_up_.is_ok(); };
  for (;;) {
    trainer_.wait(lock, [&] { return !pieces_.empty() || state_ == State::kDone || lost(); });
    if (lost() || pieces_.empty()) return;
    const Piece piece = pieces_.front();
    pieces_.pop_front();
    lock.unlock();  // the loop goes on meanwhile
    if (piece.values.empty()) {
      final_from(piece.begin);
    } else {
      copy_adding_zero(piece.values, gradient.subspan(static_cast<std::size_t>(piece.begin)));
    }
    lock.lock();
  }
}

void ForeignLoop::node_ended(Status how) {
  const std::lock_guard lock(mutex_);
  ended_ = std::move(how);
  loop_.notify_all();
}

std::optional<Status> ForeignLoop::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

Status ForeignLoop::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

namespace {

class ForeignTrainer final : public Task {
 public:
  ForeignTrainer(ForeignLoop& loop, const ForeignStage* stage) : loop_(loop), stage_(stage) {}

  Status load(const Step& step) override {
    step_ = step;
    return loop_.load();
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    return loop_.compute(step_, parameters, gradient, final_from);
  }
  std::chrono::nanoseconds waited() const override {
    return stage_ == nullptr ? std::chrono::nanoseconds(0) : stage_->waited();
  }
  Result<Metric> evaluate(std::span<const float>) override {
    return failed_precondition("a training thread's task does not evaluate");
  }

 private:
  ForeignLoop& loop_;
  const ForeignStage* const stage_;
  Step step_;
};

class ForeignEvaluator final : public Task {
 public:
  explicit ForeignEvaluator(const ForeignTasks::Evaluate& evaluate) : evaluate_(evaluate) {}

  Status load(const Step&) override { return failed_precondition("an evaluator does not train"); }
  Result<Metric> compute(std::span<const float>, std::span<float>, const FinalFrom&) override {
    return failed_precondition("an evaluator does not train");
  }
  Result<Metric> evaluate(std::span<const float> parameters) override {
    if (!evaluate_) return Metric{};
    return evaluate_(parameters);
  }

 private:
  const ForeignTasks::Evaluate& evaluate_;
};

}  // namespace

ForeignTasks::ForeignTasks(ForeignLoop& loop, Layout layout, std::vector<float> initial, Evaluate evaluate,
                           ForeignStage* stage)
    : loop_(loop),
      stage_(stage),
      layout_(std::move(layout)),
      initial_(std::move(initial)),
      evaluate_(std::move(evaluate)) {}

Range ForeignTasks::trained_by(NodeId node) const {
  return stage_ == nullptr ? TaskFactory::trained_by(node) : stage_->trained_by(node);
}
void ForeignTasks::meet(std::shared_ptr<PeerChannels> peers) {
  if (stage_ != nullptr) stage_->meet(std::move(peers));
}
std::vector<PeerBounds> ForeignTasks::peer_bounds(NodeId node) const {
  return stage_ == nullptr ? TaskFactory::peer_bounds(node) : stage_->peer_bounds(node);
}
void ForeignTasks::record_passes(schedule::PassSpans* into) {
  if (stage_ != nullptr) stage_->record_passes(into);
}
StageReport ForeignTasks::stage_report() const {
  return stage_ == nullptr ? StageReport() : stage_->report();
}
// Of the data nothing is known; but all nodes have one cut.
std::uint64_t ForeignTasks::data_fingerprint() const {
  return stage_ == nullptr ? TaskFactory::data_fingerprint() : stage_->fingerprint();
}

void ForeignTasks::initialize(std::span<float> parameters) const {
  const std::lock_guard lock(mutex_);
  if (initial_.empty()) {
    std::fill(parameters.begin(), parameters.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  PACELINE_ASSERT(initial_.size() == parameters.size(), "initial values for each parameter");
  std::copy(initial_.begin(), initial_.end(), parameters.begin());
  std::vector<float>().swap(initial_);  // = {} would keep the memory
}

Result<std::unique_ptr<Task>> ForeignTasks::make_trainer(WorkerId) {
  return std::unique_ptr<Task>(std::make_unique<ForeignTrainer>(loop_, stage_));
}

Result<std::unique_ptr<Task>> ForeignTasks::make_evaluator() {
  return std::unique_ptr<Task>(std::make_unique<ForeignEvaluator>(evaluate_));
}

}  // namespace paceline
