// ReplicatedBackground: the authority's background work where it has a follower. The work is done by both,
// each on its own disk; when it counts as done is an event like others, so that the follower's authority
// comes to the same decisions.
//
//   serves    work 3 is done            event Done{3, OK}, then here(OK, OK), done(OK)
//   follows   its own work 3 is done    is noted
//             event Done{3, OK}         here(its own, OK) where that is known, done(OK) in any case: a disk
//                                       that is slower than the other's holds up nothing
//             its own work is done now  here(its own, OK)
//   takes over                          from here on its own; what was done and not told is done now
//
// Where a disk is full and the other one's is not that is said, ever more seldom.
//
// Thread: the loop's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "server/loop/background.h"

namespace paceline::server {

class ReplicatedBackground final : public Background {
 public:
  // `note` tells the follower that work `number` is done. `now`: the time that counts.
  using Note = std::function<void(std::int64_t number, const Status& result, Ticks now)>;
  // `log` outlives this.
  ReplicatedBackground(Background& background, std::function<Ticks()> now, Note note, const Log& log)
      : background_(background), now_(std::move(now)), note_(std::move(note)), log_(&log) {}

  using Background::run;
  void run(Work work, Done done, Here here) override {
    const std::int64_t number = next_++;
    works_.emplace(number, Given{std::move(done), std::move(here), {}, {}});
    background_.run(std::move(work), [this, number](const Status& result, Ticks) {
      Given& given = works_.at(number);
      given.own = result;
      if (given.counts) {
        complete(number);
      } else if (!follows_) {
        finish(number, result);
      }
    });
  }

  // Whether what is done is told by another one (done()).
  void follow() { follows_ = true; }
  // Errors: kDataLoss this one has begun no such work, or was told so before: it is not in the same state.
  [[nodiscard]] Status done(std::int64_t number, const Status& result, Ticks now) {
    const auto found = works_.find(number);
    if (found == works_.end() || found->second.counts) {
      return data_loss("background work " + std::to_string(number) + " is done, expected one of " +
                       std::to_string(next_) + " that is not done yet");
    }
    found->second.counts = result;
    const Done done = std::move(found->second.done);
    if (found->second.own) complete(number);
    done(result, now);
    return Status::ok();
  }
  void take_over() {
    follows_ = false;
    std::vector<std::pair<std::int64_t, Status>> ready;
    for (const auto& [number, given] : works_) {
      if (given.own && !given.counts) ready.emplace_back(number, *given.own);
    }
    for (const auto& [number, result] : ready) finish(number, result);
  }
  // Whether something counts that is still being done here.
  bool is_behind() const {
    return std::any_of(works_.begin(), works_.end(), [](const auto& each) { return each.second.counts; });
  }
  // Calls `then` once nothing does, perhaps at once.
  void when_caught_up(std::function<void()> then) {
    when_caught_up_ = std::move(then);
    notify_caught_up();
  }

 private:
  struct Given {
    Done done;
    Here here;
    std::optional<Status> own;     // of the work here
    std::optional<Status> counts;  // by event
  };

  void finish(std::int64_t number, const Status& result) {
    const Ticks now = now_();
    note_(number, result, now);
    const Status known = done(number, result, now);
    PACELINE_ASSERT(known.is_ok(), known.message());
  }
  // Both are known.
  void complete(std::int64_t number) {
    const auto given = works_.extract(number);
    const Given& completed = given.mapped();
    if (completed.own->is_ok() != completed.counts->is_ok()) {
      log_->write(
          std::has_single_bit(++differ_) ? LogLevel::kWarn : LogLevel::kDebug,
          completed.counts->is_ok()
              ? "not on this replica's disk, though it is on the other one's: " + completed.own->message()
              : "on this replica's disk, though not on the other one's: " + completed.counts->message());
    }
    if (completed.here) completed.here(*completed.own, *completed.counts);
    notify_caught_up();
  }
  void notify_caught_up() {
    if (when_caught_up_ && !is_behind()) std::exchange(when_caught_up_, {})();
  }

  Background& background_;
  const std::function<Ticks()> now_;
  const Note note_;
  const Log* log_;
  bool follows_ = false;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Given> works_;  // that do not count as done yet, or are not done here
  std::uint64_t differ_ = 0;             // what was done by one, and not by the other
  std::function<void()> when_caught_up_;
};

}  // namespace paceline::server
