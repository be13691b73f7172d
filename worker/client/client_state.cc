#include "worker/client/client_state.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"

namespace paceline {

void ClientState::stands(ShardId server, Standing standing) {
  const std::lock_guard lock(mutex_);
  servers_.at(server.value) = std::move(standing);
  changed_.notify_all();
}

Result<std::vector<ClientState::Standing>> ClientState::await_welcomes(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] {
    const std::uint64_t generation = servers_.front().generation;
    return !closed_.is_ok() || (generation != 0 && std::all_of(servers_.begin(), servers_.end(),
                                                               [generation](const Standing& server) {
                                                                 return server.generation == generation;
                                                               }));
  });
  if (!closed_.is_ok()) return closed_;
  return servers_;
}

void ClientState::peers(wire::Peers peers) {
  const std::lock_guard lock(mutex_);
  peers_ = std::move(peers);
  changed_.notify_all();
}

Result<wire::Peers> ClientState::await_peers(std::uint32_t after, std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto has_peers = [&] { return peers_ && peers_->formation > after; };
  changed_.wait_for(lock, timeout, [&] { return !closed_.is_ok() || has_peers(); });
  if (!closed_.is_ok()) return closed_;
  if (!has_peers()) return deadline_exceeded("the authority has not sent the other nodes' addresses");
  wire::Peers taken = *peers_;
  forget(peers_->key);  // nobody asks for it again
  return taken;
}

void ClientState::run_state(RunState state) {
  const std::lock_guard lock(mutex_);
  run_state_ = std::move(state);
  changed_.notify_all();
}

Result<RunState> ClientState::await_run_state(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return !closed_.is_ok() || run_state_; });
  if (!closed_.is_ok()) return closed_;
  if (!run_state_) return deadline_exceeded("the server has not sent what the run begins with");
  return *std::exchange(run_state_, std::nullopt);
}

bool ClientState::close(const Status& why, Lost lost) {
  PACELINE_ASSERT(!why.is_ok(), "a client is closed for a reason");
  const std::lock_guard lock(mutex_);
  if (!closed_.is_ok()) return false;
  closed_ = why;
  lost_ = lost;
  changed_.notify_all();
  return true;
}

Status ClientState::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

Lost ClientState::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool ClientState::leave() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(left_, true);
}

bool ClientState::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

void ClientState::over(Status how) {
  const std::lock_guard lock(mutex_);
  if (!run_over_) run_over_ = std::move(how);
  changed_.notify_all();
}

void ClientState::expect_no_end() {
  const std::lock_guard lock(mutex_);
  expects_no_end_ = true;
  changed_.notify_all();
}

std::optional<Status> ClientState::run_over(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return run_over_.has_value() || expects_no_end_; });
  return run_over_;
}

Status ClientState::await_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !closed_.is_ok(); });
  return run_over_ ? *run_over_ : closed_;
}

}  // namespace paceline
