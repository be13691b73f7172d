// EventLog: what a server that serves tells its follower, and what it says itself only once the follower has
// what that follows from.
//
//   a gradient comes    add(Push)              event 17
//   it is complete      add(GradientArrived)   event 18
//   the core decides    hold(Grant)            waits for 18
//   nothing is left     end_turn()             17 and 18 leave for the follower, 18 ends the turn
//   LogAck{19}         held(19)               the grant may go
//
// Until a follower is there for good (discard_history()) the events are kept, for it has to be told all of them;
// afterwards none is. A follower that is gone is not waited for any more (LeaderLease::must_hold() says when that
// is safe).
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"

namespace paceline::server {

class EventLog {
 public:
  // Whom an output is for: a connection of this server's socket, or the authority. Membership::Connection is
  // another type, since it means something else where it is empty.
  class To {
   public:
    To(wire::PeerId connection) : connection_(std::move(connection)) {}
    static To authority() { return To(); }
    // Nothing: the authority.
    const std::optional<wire::PeerId>& connection() const { return connection_; }
    bool operator==(const To&) const = default;

   private:
    To() = default;
    std::optional<wire::PeerId> connection_;
  };
  struct Output {
    To to;
    wire::Message message;
  };

  // It happened: `event.logged` says what and when, and is given its number here.
  void add(wire::Message event);
  // The events since the last turn, the last of them marked; nothing where nobody follows yet, and they are
  // kept.
  std::vector<wire::Message> end_turn();
  // A follower has come: all that has happened, to be told to it before anything else.
  std::vector<wire::Message> follow();
  // It has all there is, and from here on only it can follow.
  void discard_history() {
    history_discarded_ = true;
    history_.clear();
    if (follows_ == Follows::kNotYet) unfollow();
  }
  // It has gone: after discard_history() nobody can follow any more, before that another one may.
  void unfollow();
  // Nobody can follow from here on.
  void end_following() {
    history_discarded_ = true;
    unfollow();
  }
  bool may_be_followed() const { return follows_ == Follows::kNotYet; }

  // To be said once the follower has all that has happened so far.
  void hold(To to, wire::Message message, Ticks now = Ticks());
  // How many small messages are held for that connection, in the sense of wire::Unread.
  std::int64_t waiting(const wire::PeerId& to) const {
    const auto found = waiting_.find(to);
    return found == waiting_.end() ? 0 : found->second;
  }
  // What was held for that connection is said by nobody: it broke, and what counts is said again.
  void drop(const To& to);
  // The follower has the first `count` events. Errors: kInvalidArgument fewer than it had, or more than there
  // are.
  [[nodiscard]] Status held(std::int64_t count);
  // What may be said now, in order, and is given away; `alone`: nobody else must have it.
  std::vector<Output> take(bool alone);
  bool holds() const { return !outputs_.empty(); }
  std::int64_t outputs() const { return static_cast<std::int64_t>(outputs_.size()); }
  // Since when the oldest of it waits.
  std::optional<Ticks> holds_since() const {
    return outputs_.empty() ? std::nullopt : std::optional(outputs_.front().since);
  }
  // How many events there have been, and how many of them the follower has.
  std::int64_t count() const { return count_; }
  std::int64_t held() const { return held_; }
  // As far as the follower has not said that it has them.
  std::int64_t lag() const { return count() - held_; }

 private:
  enum class Follows { kNotYet, kYes, kNoMore };
  struct Waiting {
    std::int64_t count = 0;  // of the events that it waits for
    Ticks since;
    Output output;
  };
  static bool is_counted(const Output& output);
  void end_turn_of(std::vector<wire::Message>& events) {
    if (!events.empty()) events.back().logged->ends_turn = true;
  }

  Follows follows_ = Follows::kNotYet;
  std::vector<wire::Message> turn_;     // events since the last turn
  std::vector<wire::Message> history_;  // of the turns before, until discard_history()
  bool history_discarded_ = false;
  std::int64_t count_ = 0;
  std::int64_t held_ = 0;
  std::deque<Waiting> outputs_;
  std::unordered_map<wire::PeerId, std::int64_t> waiting_;  // of those, by connection; none with 0
};

}  // namespace paceline::server
