// EndOfRun: whether a server's loop has ended, how the run went, and what the server is to do next. Whatever
// part finds that the run cannot go on says so here, once.
//
// Thread: the server's loop.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "common/status.h"
#include "server/authority/reconfigure.h"

namespace paceline::server {

class EndOfRun {
 public:
  // `close` is called from within the end(), once: sockets and timers go.
  explicit EndOfRun(std::function<void()> close) : close_(std::move(close)) {}

  bool ended() const { return ended_; }
  // What it could not say any more changes nothing of how the run went.
  void end(Status result) {
    if (ended_) return;
    ended_ = true;
    result_ = result_of_run_ ? *result_of_run_ : std::move(result);
    close_();
  }
  const Status& result() const { return result_; }

  // Another shard's: the authority has said how the run went; there is nothing left to do but to be heard.
  void set_result(Status how) { result_of_run_ = std::move(how); }
  const std::optional<Status>& result_of_run() const { return result_of_run_; }

  // The servers of the run go on by themselves.
  void reconfigures(bool does) { reconfigures_ = does; }
  bool reconfigures() const { return reconfigures_; }
  // This one comes back, as a replica that follows.
  void rejoin_later() { rejoins_ = true; }
  bool rejoins() const { return rejoins_; }
  // What is made of the server next, once it has ended.
  void restart(RestartRequest request) { restart_ = request; }
  const std::optional<RestartRequest>& restart_request() const { return restart_; }

 private:
  const std::function<void()> close_;
  bool ended_ = false;
  Status result_ = internal_error("the server's loop ended before the run");
  std::optional<Status> result_of_run_;
  bool reconfigures_ = false;
  bool rejoins_ = false;
  std::optional<RestartRequest> restart_;
};

}  // namespace paceline::server
