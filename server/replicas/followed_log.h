// FollowedLog: the events of the replica that serves, as the one that follows has them: turn by turn, and how many
// are done here.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::server {

class FollowedLog {
 public:
  // The one that serves has let this one follow. False: it had before.
  bool begin() { return !std::exchange(begun_, true); }
  bool has_begun() const { return begun_; }
  // The next event. The turn that it ends, to be done one by one, each followed by applied_one(); nothing in
  // the middle of one. Errors: kDataLoss it is not the next one.
  Result<std::vector<wire::Message>> on_event(wire::Message event) {
    const auto expected = applied_ + static_cast<std::int64_t>(turn_.size());
    if (!begun_ || event.logged->number != expected) {
      return data_loss("the replica that serves has told event " + std::to_string(event.logged->number) +
                       ", expected " + std::to_string(expected));
    }
    const bool ends_turn = event.logged->ends_turn;
    turn_.push_back(std::move(event));
    return ends_turn ? std::exchange(turn_, {}) : std::vector<wire::Message>();
  }
  void applied_one() { ++applied_; }
  std::int64_t applied() const { return applied_; }
  bool is_in_a_turn() const { return !turn_.empty(); }
  // Of a turn that has not ended nothing counts.
  void end() { turn_.clear(); }

 private:
  bool begun_ = false;
  std::vector<wire::Message> turn_;  // events of one that has not ended
  std::int64_t applied_ = 0;
};

}  // namespace paceline::server
