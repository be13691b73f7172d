#include "worker/train/gradient_buffers.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

namespace paceline {

struct GradientBuffers::State {
  State(std::int64_t n, std::size_t buffers_max, ReadBy reader, std::shared_ptr<std::pmr::memory_resource> m,
        std::chrono::nanoseconds late_after)
      : floats(static_cast<std::size_t>(n)),
        max(buffers_max),
        read_by(reader),
        memory(std::move(m)),
        late(late_after) {}
  bool may_give(std::size_t limit) const { return !idle.empty() || made < limit; }
  // The next one that is made would be for a transport that is late.
  bool is_late() const { return read_by == ReadBy::kServers && made + kForLate >= max; }

  const std::size_t floats;
  const std::size_t max;
  const ReadBy read_by;
  const std::shared_ptr<std::pmr::memory_resource> memory;  // outlives the buffers below
  const std::chrono::nanoseconds late;
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<std::unique_ptr<Buffer>> idle;
  std::size_t made = 0;
};

GradientBuffers::GradientBuffers(std::int64_t floats, std::size_t max, ReadBy read_by,
                                 std::shared_ptr<std::pmr::memory_resource> memory,
                                 std::chrono::nanoseconds late)
    : state_(std::make_shared<State>(floats, max, read_by, std::move(memory), late)) {}

Result<std::shared_ptr<GradientBuffers::Buffer>> GradientBuffers::acquire(std::chrono::nanoseconds deadline) {
  std::unique_lock lock(state_->mutex);
  if (state_->is_late()) {
    state_->returned.wait_for(lock, std::min(deadline, state_->late), [&] { return !state_->idle.empty(); });
  }
  const bool there = state_->returned.wait_for(lock, deadline, [&] { return state_->may_give(state_->max); });
  if (!there) {
    return deadline_exceeded(
        "all " + std::to_string(state_->max) + " gradient buffers are still being sent or read after " +
        std::to_string(std::chrono::ceil<std::chrono::seconds>(deadline).count()) + " s");
  }
  std::unique_ptr<Buffer> buffer;
  if (state_->idle.empty()) {
    std::pmr::memory_resource* const heap = std::pmr::new_delete_resource();
    buffer = std::make_unique<Buffer>(state_->floats, state_->memory ? state_->memory.get() : heap);
    ++state_->made;
  } else {
    buffer = std::move(state_->idle.back());
    state_->idle.pop_back();
  }
  return std::shared_ptr<Buffer>(buffer.release(), [state = state_](Buffer* done) {
    std::lock_guard returning(state->mutex);
    state->idle.emplace_back(done);
    state->returned.notify_one();
  });
}

bool GradientBuffers::ready() const {
  std::lock_guard lock(state_->mutex);
  return state_->may_give(state_->read_by == ReadBy::kServers ? state_->max - 1 : state_->max);
}

std::size_t GradientBuffers::made() const {
  std::lock_guard lock(state_->mutex);
  return state_->made;
}

}  // namespace paceline
