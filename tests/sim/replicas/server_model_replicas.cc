// A simulated server and its shard's other one; and what etcd has of them.
#include <algorithm>
#include <utility>

#include "tests/sim/replicas/server_model.h"

namespace paceline::test {

// ---- it serves

void ServerModel::follower_comes(Process follower) {
  if (!serves() || !role_.log().may_be_followed()) return;
  for (const wire::Message& event : role_.follower_comes("the follower", follower, now())) {
    ++run_.faults.history;
    handlers_.replica(event);
  }
}

void ServerModel::follower_holds(std::int64_t count) {
  if (!serves() || !role_.follower()) return;
  check(role_.follower_holds(count, now()), "its follower");
  release();
}

void ServerModel::loses_follower() {
  if (!serves() || !role_.lose_follower()) return;
  if (!role_.waits_for_follower()) ++run_.faults.gone_on_alone;
}

bool ServerModel::set_complete(Members members) {
  wanted_ = std::move(members);
  if (asked_ || wanted_ == known_) return true;
  asked_ = wanted_;
  handlers_.etcd(wanted_);
  return true;
}

void ServerModel::etcd_has_complete(const Members& complete) {
  if (!serves()) return;
  asked_.reset();
  known_ = complete;
  (void)role_.lease_answered();
  release();
}

// What was asked may be there at any time.
ServerModel::Members ServerModel::must_hold() const {
  if (run_.breach == Breach::kSentTooSoon) return {number_};
  Members all = wanted_;
  all.insert(known_.begin(), known_.end());
  if (asked_) all.insert(asked_->begin(), asked_->end());
  return all;
}

void ServerModel::acts_again() {
  acts_ = true;
  release();
}

// ---- it follows

void ServerModel::on_event(const wire::Message& event) {
  if (dead_ || !role_.follows()) return;
  wire::Message next = event;
  if (run_.breach == Breach::kHalfTurnApplied) next.logged->ends_turn = true;
  const Result<std::vector<wire::Message>> turn = role_.followed().on_event(std::move(next));
  if (!turn.is_ok()) return check(turn.status(), "its follower");
  for (const wire::Message& each : *turn) {
    apply(each);
    role_.followed().applied_one();
  }
  if (!turn->empty()) send_ack();
}

// As ServerLoop does.
void ServerModel::apply(const wire::Message& event) {
  const wire::LogEntry& logged = *event.logged;
  const bool of_own_shard = logged.as == As::kToAuthority && logged.shard == state_.shard();
  if (of_own_shard || logged.as == As::kSent) compare(role_.on_primary_sent(event));
  if (logged.as != As::kSent || run_.breach != Breach::kSentIsNotCounted) channels_.follow(logged, event);
  if (const auto* join = std::get_if<wire::ShardJoin>(&event.body)) {
    shards_here_.insert(join->shard);
    check(channels_.on_ack(join->shard, join->acked), "its follower, when another shard joined");
  }
  other_received(event);
  state_.apply(event);
}

void ServerModel::other_received(const wire::Message& event) {
  const auto* local_event = std::get_if<wire::LocalEvent>(&event.body);
  if (local_event == nullptr || local_event->what != What::kAcked) return;
  check(channels_.on_ack(*event.logged->shard, local_event->number),
        "what it is said to have been heard with");
}

void ServerModel::take_over(const Members& complete) {
  known_ = complete;
  if (role_.followed().is_in_a_turn()) ++run_.faults.half_turns;
  role_.take_over(now());
  acknowledged_.check(state_, run_.violations);
  for (const auto& [worker, clock] : state_.discarded())
    handlers_.discards({wire::DiscardGradient{worker, clock}, {}, {}});
  turn([this] {
    for (const wire::Message& message : role_.take_uncommitted()) {
      if (run_.breach == Breach::kUnsentForgotten) continue;
      ++run_.faults.uncommitted;
      send_as_shard(message);
    }
  });
}

}  // namespace paceline::test
