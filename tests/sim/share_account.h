// Who does which iteration under share: even while workers come and go: a slow, independent account of it.
// The work list is written out, each clock's iterations are handed out one by one when the first of its
// workers begins it, and what is still in somebody's hands when he is lost goes to the list's end.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::test {

class ShareAccount {
 public:
  explicit ShareAccount(std::int64_t total) : tape_(static_cast<std::size_t>(total)) {
    std::iota(tape_.begin(), tape_.end(), std::int64_t{0});
  }

  // Resumed: nobody is there yet, and `begun` is the first clock.
  ShareAccount(std::vector<std::int64_t> left, Clock begun) : tape_(std::move(left)), begun_(begun) {}

  void come(WorkerId worker) { there_.insert(worker); }
  void finish(WorkerId worker) { there_.erase(worker); }
  // What it was granted and has not completed, of two the older first.
  void lose(WorkerId worker, const std::vector<std::int64_t>& granted) {
    there_.erase(worker);
    tape_.insert(tape_.end(), granted.begin(), granted.end());
    for (auto it = in_hand_.begin(); it != in_hand_.end();) {
      if (it->first.first != worker) {
        ++it;
        continue;
      }
      tape_.push_back(it->second);
      it = in_hand_.erase(it);
    }
  }

  bool done(WorkerId worker, Clock clock) const {
    if (clock < begun_) {
      const auto later = in_hand_.lower_bound({worker, clock});
      return next_ == tape_.size() && (later == in_hand_.end() || later->first.first != worker);
    }
    const auto before = std::distance(there_.begin(), there_.find(worker));
    return next_ + static_cast<std::size_t>(before) >= tape_.size();
  }

  // -1: there is none for it.
  std::int64_t grant(WorkerId worker, Clock clock) {
    if (clock == begun_) {
      begun_ = begun_.next();
      for (const WorkerId each : there_) {
        if (next_ < tape_.size()) in_hand_[{each, clock}] = tape_[next_++];
      }
    }
    if (const auto own = in_hand_.extract({worker, clock})) return own.mapped();
    if (next_ < tape_.size()) return tape_[next_++];
    const auto later = in_hand_.lower_bound({worker, clock});
    if (later == in_hand_.end() || later->first.first != worker) return -1;
    return in_hand_.extract(later).mapped();
  }

 private:
  std::vector<std::int64_t> tape_;
  std::size_t next_ = 0;
  Clock begun_;  // the first clock that nobody has begun
  std::set<WorkerId> there_;
  std::map<std::pair<WorkerId, Clock>, std::int64_t> in_hand_;
};

}  // namespace paceline::test
