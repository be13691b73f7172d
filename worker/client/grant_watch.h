// GrantWatch: what the authority owes each training thread, and since when. Its heartbeats say that it lives,
// not that it has a word for us: after a report it sends a grant, the news that nothing follows, or, each
// second, that it holds the grant (HeldNotice). A live authority that says none of them would be waited for for
// ever.
//
//   report         the next instruction is due; not late while the push before it is still leaving
//   HeldNotice           the authority has the report and holds the grant: due anew
//   Grant, Finish  nothing is due; after a report neither, where the next grant has come before it (exchange.hidden)
//
// Before its first grant a thread waits as long as the authority does for those who are missing.
//
// It also knows what there is to say about a grant that does not come (waits()): HeldNotice says for whom it is
// held.
//
// Time is passed in. Thread: the I/O thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/stall_log.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline {

class GrantWatch {
 public:
  // How long the authority may say nothing of a thread that waits, in leases; and no less than this, since a
  // lease may be short while a server applies for seconds.
  static constexpr int kLeases = 10;
  static constexpr std::chrono::seconds kAtLeast{3};

  GrantWatch(NodeId node, std::uint32_t threads, std::chrono::nanoseconds lease);

  // `thread` has a push on its way: `push` expires when its last byte has left.
  void pushed(std::uint32_t thread, std::weak_ptr<const void> push) { at(thread).push = std::move(push); }
  // Its report is sent.
  void reported(std::uint32_t thread, Clock clock, Ticks now);
  // Of a thread of this node.
  void held(const wire::HeldNotice& held, Ticks now);
  // `granted`: the clock of a grant; none: nothing follows.
  void instructed(std::uint32_t thread, std::optional<Clock> granted, Ticks now);

  // Which grants do not come, and why, as far as is known here: one for each reason. `authority`: what it is
  // called.
  std::vector<Wait> waits(const std::string& authority) const;
  // How long the slowest thread usually waits from its report on.
  std::chrono::nanoseconds usual() const;

  // This process itself did not run for that long: nobody else is to blame for the silence.
  void discount_pause(const Pause& pause);
  // kDeadlineExceeded, naming the worker and what it waits for, when the authority owes a word for too long.
  Status check(Ticks now);

 private:
  struct Waiting {
    std::optional<Ticks> since;  // nothing is due without
    Ticks reported_at;
    Clock reported;
    std::optional<Clock> granted;          // the newest
    bool begun = false;                    // it has been told something
    std::optional<wire::HeldNotice> held;  // since the report: why nothing else has come
    DurationBaseline usual;                // from a report to what follows it
    std::weak_ptr<const void> push;
  };
  Waiting& at(std::uint32_t thread) { return threads_.at(thread); }

  const NodeId node_;
  const std::chrono::nanoseconds allowed_;
  std::vector<Waiting> threads_;
};

}  // namespace paceline
