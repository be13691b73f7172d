// The authority's request to evaluate, on its way from the I/O thread to the evaluator thread.
//
// The authority asks for one evaluation at a time, and for the next one only when it has the report or has
// given up waiting for it. So whatever has not been taken when a request arrives is no longer wanted: there
// is room for one, the newest.
//
// Thread: any. close() releases the waiter and is final.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline {

class EvaluationQueue {
 public:
  void put(const wire::Evaluate& request) {
    std::lock_guard lock(mutex_);
    wanted_ = request;
    arrived_.notify_one();
  }

  Result<wire::Evaluate> take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !closed_.is_ok() || wanted_; });
    if (!closed_.is_ok()) return closed_;
    return *std::exchange(wanted_, std::nullopt);
  }

  void clear() {
    std::lock_guard lock(mutex_);
    wanted_.reset();
  }

  void close(Status why) {
    std::lock_guard lock(mutex_);
    if (closed_.is_ok()) closed_ = std::move(why);
    arrived_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<wire::Evaluate> wanted_;
  Status closed_;
};

}  // namespace paceline
