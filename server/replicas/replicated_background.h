// ReplicatedBackground: the authority's background work where it has a follower. The work is done by both,
// each on its own disk; when it counts as done is an event like others, so that the follower's authority
// comes to the same decisions.
//
//   serves    work 3 is done            event Done{3, OK}, then done(OK)
//   follows   its own work 3 is done    is noted
//             event Done{3, OK}         done(OK), whether its own is done or not
//   takes over                          from here on its own; what was done and not told is done now
//
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "server/background.h"

namespace paceline::server {

class ReplicatedBackground final : public Background {
 public:
  // `note` tells the follower that work `number` is done. `now`: the time that counts.
  using Note = std::function<void(std::int64_t number, const Status& result, Ticks now)>;
  ReplicatedBackground(Background& background, std::function<Ticks()> now, Note note)
      : background_(background), now_(std::move(now)), note_(std::move(note)) {}

  void run(std::function<Status()> work, std::function<void(const Status&, Ticks now)> done) override {
    const std::int64_t number = next_++;
    works_[number].done = std::move(done);
    background_.run(std::move(work), [this, number](const Status& result, Ticks) {
      const auto found = works_.find(number);
      if (found == works_.end()) return;  // it was told meanwhile
      found->second.result = result;
      if (!follows_) finish(number, result);
    });
  }

  // Whether what is done is told by another one (done()).
  void follow() { follows_ = true; }
  void done(std::int64_t number, const Status& result, Ticks now) {
    const auto found = works_.find(number);
    if (found == works_.end()) return;
    const auto done = std::move(found->second.done);
    works_.erase(found);
    done(result, now);
  }
  void take_over() {
    follows_ = false;
    std::vector<std::pair<std::int64_t, Status>> ready;
    for (const auto& [number, work] : works_) {
      if (work.result) ready.emplace_back(number, *work.result);
    }
    for (const auto& [number, result] : ready) finish(number, result);
  }

 private:
  void finish(std::int64_t number, const Status& result) {
    const Ticks now = now_();
    note_(number, result, now);
    done(number, result, now);
  }

  struct Work {
    std::function<void(const Status&, Ticks now)> done;
    std::optional<Status> result;  // of this one's own
  };
  Background& background_;
  const std::function<Ticks()> now_;
  const Note note_;
  bool follows_ = false;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Work> works_;  // that do not count as done yet
};

}  // namespace paceline::server
