#include "server/replicas/event_log.h"

#include <algorithm>
#include <string>

#include "common/assert.h"
#include "common/wire/unread.h"

namespace paceline::server {

void EventLog::add(wire::Message event) {
  PACELINE_ASSERT(event.logged.has_value(), "an event that does not say what it is");
  event.logged->number = count_++;
  if (follows_ != Follows::kNoMore) turn_.push_back(std::move(event));
}

std::vector<wire::Message> EventLog::end_turn() {
  end_turn_of(turn_);
  std::vector<wire::Message> events = std::exchange(turn_, {});
  if (!history_discarded_) history_.insert(history_.end(), events.begin(), events.end());
  if (follows_ != Follows::kYes) events.clear();
  return events;
}

// In the middle of a turn: what is left of that comes with its end.
std::vector<wire::Message> EventLog::follow() {
  PACELINE_ASSERT(may_be_followed(), "a second follower");
  follows_ = Follows::kYes;
  return history_;
}

void EventLog::unfollow() {
  follows_ = history_discarded_ ? Follows::kNoMore : Follows::kNotYet;
  held_ = 0;
  if (!history_discarded_) return;
  turn_.clear();
  history_.clear();
}

// Large ones are bounded by who sends them, here as on their way.
bool EventLog::is_counted(const Output& output) {
  return output.to.connection() && output.message.payload.size <= wire::kCopiedBytesMax;
}

void EventLog::hold(To to, wire::Message message, Ticks now) {
  outputs_.push_back({count_, now, {std::move(to), std::move(message)}});
  const Output& held = outputs_.back().output;
  if (is_counted(held)) ++waiting_[*held.to.connection()];
}

void EventLog::drop(const To& to) {
  if (to.connection()) waiting_.erase(*to.connection());
  std::erase_if(outputs_, [&](const Waiting& waiting) { return waiting.output.to == to; });
}

Status EventLog::held(std::int64_t count) {
  if (count < held_ || count > count_) {
    return invalid_argument("events that the follower has: got " + std::to_string(count) + ", expected " +
                            std::to_string(held_) + " to " + std::to_string(count_));
  }
  held_ = count;
  return Status::ok();
}

std::vector<EventLog::Output> EventLog::take(bool alone) {
  std::vector<Output> ready;
  while (!outputs_.empty() && (alone || outputs_.front().count <= held_)) {
    ready.push_back(std::move(outputs_.front().output));
    outputs_.pop_front();
    const Output& output = ready.back();
    if (!is_counted(output)) continue;
    const wire::PeerId& to = *output.to.connection();
    if (--waiting_[to] == 0) waiting_.erase(to);
  }
  return ready;
}

}  // namespace paceline::server
