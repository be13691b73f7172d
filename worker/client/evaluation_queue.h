// The authority's requests to evaluate, on their way from the I/O thread to the evaluator thread.
//
// Thread: any. close() releases the waiter and is final.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline {

class EvaluationQueue {
 public:
  // The authority keeps one evaluated and one waiting; the final model's may come behind them.
  static constexpr std::size_t kRequestsMax = 4;

  // Errors: kResourceExhausted when the authority asks for more than it may.
  Status put(const wire::Evaluate& request) {
    std::lock_guard lock(mutex_);
    if (requests_.size() >= kRequestsMax) {
      return resource_exhausted("the authority asks for an evaluation while " +
                                std::to_string(requests_.size()) + " wait");
    }
    requests_.push_back(request);
    arrived_.notify_one();
    return Status::ok();
  }

  Result<wire::Evaluate> take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !closed_.is_ok() || !requests_.empty(); });
    if (!closed_.is_ok()) return closed_;
    const wire::Evaluate request = requests_.front();
    requests_.pop_front();
    return request;
  }

  void close(Status why) {
    std::lock_guard lock(mutex_);
    if (closed_.is_ok()) closed_ = std::move(why);
    arrived_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<wire::Evaluate> requests_;
  Status closed_;
};

}  // namespace paceline
