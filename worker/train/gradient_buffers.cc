#include "worker/train/gradient_buffers.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

namespace paceline {

struct GradientBuffers::State {
  explicit State(std::int64_t n) : floats(static_cast<std::size_t>(n)) {}
  const std::size_t floats;
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<std::unique_ptr<std::vector<float>>> idle;
  std::size_t made = 0;
};

GradientBuffers::GradientBuffers(std::int64_t floats) : state_(std::make_shared<State>(floats)) {}

Result<std::shared_ptr<std::vector<float>>> GradientBuffers::acquire(std::chrono::nanoseconds deadline) {
  std::unique_lock lock(state_->mutex);
  const bool there = state_->returned.wait_for(
      lock, deadline, [&] { return !state_->idle.empty() || state_->made < kBuffersMax; });
  if (!there) {
    return deadline_exceeded(
        "all " + std::to_string(kBuffersMax) + " gradient buffers are still being sent after " +
        std::to_string(std::chrono::ceil<std::chrono::seconds>(deadline).count()) + " s");
  }
  std::unique_ptr<std::vector<float>> buffer;
  if (state_->idle.empty()) {
    buffer = std::make_unique<std::vector<float>>(state_->floats);
    ++state_->made;
  } else {
    buffer = std::move(state_->idle.back());
    state_->idle.pop_back();
  }
  return std::shared_ptr<std::vector<float>>(buffer.release(), [state = state_](std::vector<float>* done) {
    std::lock_guard returning(state->mutex);
    state->idle.emplace_back(done);
    state->returned.notify_one();
  });
}

std::size_t GradientBuffers::made() const {
  std::lock_guard lock(state_->mutex);
  return state_->made;
}

}  // namespace paceline
