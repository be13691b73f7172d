// Where a client stands: which servers have welcomed the node, why it was closed, and how the run ended.
//
// Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace paceline {

class ClientState {
 public:
  explicit ClientState(std::size_t servers) : welcomed_by_(servers, false) {}

  void welcomed(ShardId by);
  // Waits until all servers have welcomed the node, the client is closed, or `timeout` is over. By server,
  // whether it has. Errors: why the client was closed.
  Result<std::vector<bool>> await_welcomes(std::chrono::nanoseconds timeout);

  // False when it is closed already: the first `why` counts. One that is OK is our own bug.
  bool close(const Status& why);
  // OK while it is open.
  Status closed() const;

  // What the authority said first of how the run ended; nullopt while it goes on.
  void over(Status how);
  std::optional<Status> run_over() const;
  // Once it is closed: how the run ended, or why it was closed without that. No time-out: the client's I/O
  // thread closes when a server is silent for a lease.
  Status await_end();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status closed_;
  std::optional<Status> run_over_;
  std::vector<bool> welcomed_by_;
};

}  // namespace paceline
