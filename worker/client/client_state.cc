#include "worker/client/client_state.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"

namespace paceline {

void ClientState::welcomed(ShardId by) {
  const std::lock_guard lock(mutex_);
  welcomed_by_.at(by.value) = true;
  changed_.notify_all();
}

Result<std::vector<bool>> ClientState::await_welcomes(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] {
    return !closed_.is_ok() ||
           std::all_of(welcomed_by_.begin(), welcomed_by_.end(), [](bool welcomed) { return welcomed; });
  });
  if (!closed_.is_ok()) return closed_;
  return welcomed_by_;
}

bool ClientState::close(const Status& why) {
  PACELINE_ASSERT(!why.is_ok(), "a client is closed for a reason");
  const std::lock_guard lock(mutex_);
  if (!closed_.is_ok()) return false;
  closed_ = why;
  changed_.notify_all();
  return true;
}

Status ClientState::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void ClientState::over(Status how) {
  const std::lock_guard lock(mutex_);
  if (!run_over_) run_over_ = std::move(how);
}

std::optional<Status> ClientState::run_over() const {
  const std::lock_guard lock(mutex_);
  return run_over_;
}

Status ClientState::await_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !closed_.is_ok(); });
  return run_over_ ? *run_over_ : closed_;
}

}  // namespace paceline
