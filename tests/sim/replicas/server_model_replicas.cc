// A simulated server and its shard's other one; and what etcd has of them.
#include <algorithm>
#include <utility>

#include "tests/sim/replicas/server_model.h"

namespace paceline::test {

// ---- it serves

void ServerModel::follower_comes(Process follower) {
  if (dead_ || follows_ || !log_.may_be_followed()) return;
  follower_ = follower;
  for (const wire::Message& event : log_.follow()) {
    ++run_.faults.history;
    hearers_.replica(event);
  }
}

void ServerModel::follower_holds(std::int64_t count) {
  if (dead_ || follows_ || !follower_) return;
  judge(log_.held(count), "its follower");
  if (log_.held() == log_.count() && !wanted_.contains(*follower_)) want_complete({number_, *follower_});
  release();
}

void ServerModel::loses_follower() {
  if (dead_ || follows_ || !std::exchange(follower_, std::nullopt)) return;
  log_.unfollow();
  if (was_followed_) ++run_.faults.gone_on_alone;
  want_complete({number_});
}

void ServerModel::want_complete(Members members) {
  wanted_ = std::move(members);
  if (asked_) return;
  asked_ = wanted_;
  hearers_.etcd(wanted_);
}

void ServerModel::etcd_has_complete(const Members& complete) {
  if (dead_ || follows_) return;
  asked_.reset();
  known_ = complete;
  if (wanted_ != known_) want_complete(wanted_);
  const bool followed = follower_ && known_.contains(*follower_) && wanted_.contains(*follower_);
  if (followed && !std::exchange(was_followed_, true)) log_.settle();
  release();
}

// What was asked may be there at any time.
ServerModel::Members ServerModel::must_hold() const {
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
  if (dead_ || !follows_) return;
  const std::int64_t expected = applied_ + std::ssize(turn_);
  if (event.logged->number != expected) {
    run_.violations.push_back("shard " + to_string(state_.shard()) + ": its follower is told event " +
                              std::to_string(event.logged->number) + ", expected " +
                              std::to_string(expected));
    return;
  }
  turn_.push_back(event);
  if (!event.logged->ends_turn && run_.breach != Breach::kHalfTurnApplied) return;
  for (const wire::Message& each : std::exchange(turn_, {})) {
    apply(each);
    ++applied_;
  }
  tell_held();
}

// As ServerLoop::apply() does.
void ServerModel::apply(const wire::Message& event) {
  const wire::LogEntry& logged = *event.logged;
  const bool of_own_shard = logged.shard == state_.shard();
  if (logged.as == As::kToShard && logged.shard) {
    talk_.hears(event);
  } else if (logged.as == As::kToAuthority && of_own_shard) {
    compare(uncommitted_.said(event));
  } else if (logged.as == As::kToAuthority && logged.shard) {
    talks_[*logged.shard].hears(event);
  } else if (logged.as == As::kSaid) {
    compare(uncommitted_.said(event));
    if (run_.breach != Breach::kSaidIsNotCounted) talk_.says(event);
  }
  if (const auto* join = std::get_if<wire::ShardJoin>(&event.body)) {
    shards_here_.insert(join->shard);
    judge(talks_[join->shard].on_ack(join->heard), "its follower, when another shard joined");
  }
  other_heard(event);
  state_.apply(event);
}

void ServerModel::other_heard(const wire::Message& event) {
  const auto* happened = std::get_if<wire::LocalEvent>(&event.body);
  if (happened == nullptr || happened->what != What::kHeard) return;
  server::ReliableChannel& talk = is_authority() ? talks_[*event.logged->shard] : talk_;
  judge(talk.on_ack(happened->number), "what it is said to have been heard with");
}

// As ServerLoop::take_over() does.
void ServerModel::take_over(const Members& complete) {
  follows_ = false;
  was_followed_ = true;
  if (!turn_.empty()) ++run_.faults.half_turns;
  turn_.clear();
  log_.end_following();
  known_ = complete;
  want_complete({number_});
  acknowledged_.check(state_, run_.violations);
  for (const auto& [worker, clock] : state_.discarded())
    hearers_.discards({wire::DiscardGradient{worker, clock}, {}, {}});
  turn([this] {
    for (const wire::Message& message : uncommitted_.take()) {
      if (run_.breach == Breach::kUnsaidForgotten) continue;
      ++run_.faults.uncommitted;
      say_as_shard(message);
    }
  });
}

}  // namespace paceline::test
