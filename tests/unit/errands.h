// A Background whose work is done when it is told to: a disk as slow as a test likes.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "server/background.h"

namespace paceline::server {

class Errands final : public Background {
 public:
  void run(std::function<Status()> work, std::function<void(const Status&, Ticks)> done) override {
    waiting_.emplace_back(std::move(work), std::move(done));
  }
  void do_all(Ticks now) {
    while (!waiting_.empty()) {
      const auto [work, done] = std::move(waiting_.front());
      waiting_.pop_front();
      done(work(), now);
    }
  }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  std::deque<std::pair<std::function<Status()>, std::function<void(const Status&, Ticks)>>> waiting_;
};

}  // namespace paceline::server
