// A Background whose work is done when it is told to: a disk as slow as a test likes.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "server/loop/background.h"

namespace paceline::server {

class Errands final : public Background {
 public:
  using Background::run;
  void run(Work work, Done done, Here here) override {
    waiting_.push_back({std::move(work), std::move(done), std::move(here)});
  }
  void do_all(Ticks now) {
    while (!waiting_.empty()) {
      const Errand errand = std::move(waiting_.front());
      waiting_.pop_front();
      const Status result = errand.work();
      if (errand.here) errand.here(result, result);
      errand.done(result, now);
    }
  }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Errand {
    Work work;
    Done done;
    Here here;
  };
  std::deque<Errand> waiting_;
};

}  // namespace paceline::server
