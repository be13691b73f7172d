// What one thread leaves for another, which waits at a condition variable: the way back of a raw loop's
// hand-off.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace paceline::bench {

// Thread: any.
template <class Item>
class Mailbox {
 public:
  void put(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    arrived_.notify_one();
  }
  // Waits for one.
  Item take() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !items_.empty(); });
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> items_;
};

}  // namespace paceline::bench
