// A stand-in for a server, as simple as can be: a second thread that reads each gradient and makes the
// optimizer's step with it, on parameters and a state of its own. For bare_loop.cc.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "common/params/optimizer.h"

namespace paceline {

// Thread: the members are the training thread's. Whoever hands over keeps the gradient as it is until it is
// applied.
class ReconfiguredRun {
 public:
  ReconfiguredRun(const OptimizerSection& optimizer, std::span<const float> initial)
      : parameters_(initial.begin(), initial.end()),
        optimizer_(optimizer, std::ssize(parameters_)),
        thread_([this] { apply_all(); }) {}
  ReconfiguredRun(const ReconfiguredRun&) = delete;
  ReconfiguredRun& operator=(const ReconfiguredRun&) = delete;
  ~ReconfiguredRun() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // When the one before is applied.
  void hand_over(std::span<const float> gradient, double rate) {
    wait_until_applied();
    {
      const std::lock_guard lock(mutex_);
      gradient_ = gradient;
      rate_ = rate;
    }
    changed_.notify_all();
  }

  void wait_until_applied() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return gradient_.empty(); });
  }

  // With all that was handed over.
  void copy_to(std::span<float> parameters) {
    wait_until_applied();
    std::copy(parameters_.begin(), parameters_.end(), parameters.begin());
  }

 private:
  void apply_all() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !gradient_.empty(); });
      if (gradient_.empty()) return;
      lock.unlock();
      optimizer_.apply(parameters_, gradient_, rate_);
      lock.lock();
      gradient_ = {};
      changed_.notify_all();
    }
  }

  std::vector<float> parameters_;
  OptimizerState optimizer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const float> gradient_;  // empty: nothing to be done
  double rate_ = 0.0;
  bool ends_ = false;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace paceline
