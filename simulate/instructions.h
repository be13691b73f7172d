// What the authority has said to a worker and the worker has not looked at: grants, on their way to it or
// waiting for it, and the news that nothing follows. What a message says lies here from its departure on; its
// event is only that it has come.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

#include "common/sync/actions.h"

namespace paceline::simulate {

// Thread: one.
class Instructions {
 public:
  // Sent.
  void expect(const sync::Grant& grant) { grants_.push_back(grant); }
  void expect(const sync::FinishWorker& finish) { finish_held_ = finish.held; }

  // The oldest grant that has not come has.
  void grant_came() { ++arrived_; }
  bool has_grant() const { return arrived_ > 0; }
  // The oldest, where there is one.
  sync::Grant take() {
    const sync::Grant grant = grants_.front();
    grants_.pop_front();
    --arrived_;
    return grant;
  }

  void finish_came() { finished_ = true; }
  bool finished() const { return finished_; }
  // How long the worker was held before it was told that nothing follows.
  std::chrono::nanoseconds finish_held() const { return finish_held_; }

 private:
  std::deque<sync::Grant> grants_;
  std::size_t arrived_ = 0;  // of these, have come
  std::chrono::nanoseconds finish_held_{0};
  bool finished_ = false;
};

}  // namespace paceline::simulate
