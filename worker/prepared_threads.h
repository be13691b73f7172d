// Threads that first make what they work with, and then wait for the word to begin.
//
//   PreparedThreads<Tools> threads(2, make, work);   each calls make(t)
//   while (!threads.ready_within(1s)) …              all have; until then not_ready() has not
//   threads.work();                                  each calls work(t, what it made)
//   while (!threads.done_within(1s)) …               all have
//
// What a thread makes stays on it and ends there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/status.h"

namespace paceline {

// Thread: the one that made it.
template <typename Made>
class PreparedThreads {
 public:
  using Make = std::function<Result<Made>(std::uint32_t)>;
  using Work = std::function<void(std::uint32_t, Result<Made>)>;
  // Starts a thread; throws std::system_error where that cannot be.
  using Start = std::function<std::thread(std::function<void()>)>;

  PreparedThreads(
      std::uint32_t count, const Make& make, const Work& work,
      const Start& start = [](std::function<void()> body) { return std::thread(std::move(body)); })
      : word_(promise_.get_future()) {
    for (std::uint32_t t = 0; t < count; ++t) {
      const auto one = std::make_shared<One>();
      ready_.push_back(one->ready.get_future().share());
      done_.push_back(one->done.get_future().share());
      try {
        threads_.push_back(start([this, t, make, work, one] {
          Result<Made> made = make(t);
          one->ready.set_value(made.status());
          if (word_.get() == Word::kWork) work(t, std::move(made));
          one->done.set_value();
        }));
      } catch (const std::system_error& error) {
        one->ready.set_value(resource_exhausted(std::string("no thread can be started: ") + error.what()));
        one->done.set_value();
        all_started_ = false;
      }
    }
  }
  // Waits for those that work. Those that were not told to end without having worked.
  ~PreparedThreads() {
    set(Word::kEnd);
    for (std::thread& thread : threads_) thread.join();
  }
  PreparedThreads(const PreparedThreads&) = delete;
  PreparedThreads& operator=(const PreparedThreads&) = delete;

  // Whether the system gave all that were asked for.
  bool all_started() const { return all_started_; }
  // Whether all have made it, or could not, before `patience` is over.
  bool ready_within(std::chrono::nanoseconds patience) const { return all_within(patience, ready_); }
  // Those that are still at it, by their numbers.
  std::vector<std::uint32_t> not_ready() const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t t = 0; t < ready_.size(); ++t) {
      if (ready_[t].wait_for(std::chrono::seconds(0)) != std::future_status::ready) found.push_back(t);
    }
    return found;
  }
  // Why the first of them cannot work, if one cannot. Waits for those that are still at it.
  Status readiness() const {
    for (const auto& each : ready_) PACELINE_RETURN_IF_ERROR(each.get());
    return Status::ok();
  }
  // Those that could make nothing are told to work, too: what becomes of it is for `work` to say.
  void work() { set(Word::kWork); }
  // Whether all have worked before `patience` is over.
  bool done_within(std::chrono::nanoseconds patience) const { return all_within(patience, done_); }

 private:
  enum class Word { kWork, kEnd };
  struct One {
    std::promise<Status> ready;
    std::promise<void> done;
  };

  void set(Word word) {
    if (!std::exchange(is_set_, true)) promise_.set_value(word);
  }
  template <typename Futures>
  static bool all_within(std::chrono::nanoseconds patience, const Futures& futures) {
    const auto end = std::chrono::steady_clock::now() + patience;
    return std::all_of(futures.begin(), futures.end(),
                       [&](const auto& each) { return each.wait_until(end) == std::future_status::ready; });
  }

  std::vector<std::shared_future<Status>> ready_;  // of each thread
  std::vector<std::shared_future<void>> done_;
  bool all_started_ = true;
  bool is_set_ = false;
  std::promise<Word> promise_;
  std::shared_future<Word> word_;
  std::vector<std::thread> threads_;
};

}  // namespace paceline
