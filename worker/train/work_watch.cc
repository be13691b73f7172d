#include "worker/train/work_watch.h"

#include "common/assert.h"

namespace paceline {

void WorkWatch::begin(Work work, Clock clock, Ticks now) {
  const std::lock_guard lock(mutex_);
  PACELINE_ASSERT(!running_, "worker " + to_string(worker_) + " works at two things");
  running_ = {work, clock, now};
}

void WorkWatch::end(Ticks now) {
  const std::lock_guard lock(mutex_);
  DurationBaseline& usual = running_->work == Work::kBatch ? batches_ : gradients_;
  usual.took(now - running_->begun);
  running_.reset();
}

std::optional<Wait> WorkWatch::wait() const {
  const std::lock_guard lock(mutex_);
  if (!running_) return std::nullopt;
  const bool loads = running_->work == Work::kBatch;
  const std::string what =
      std::string(loads ? "the mini-batch" : "the gradient") + " of clock " + to_string(running_->clock);
  const std::string on = loads || on_.empty() ? "" : " on " + on_;
  return Wait{what + " of worker " + to_string(worker_),
              "worker " + to_string(worker_) + (loads ? " loads " : " computes ") + what + on,
              (loads ? batches_ : gradients_).usual()};
}

}  // namespace paceline
