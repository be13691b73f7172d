// Who serves a shard, who follows, and what befalls them.
#include "tests/sim/replicas/replicated_shard.h"

#include <utility>

namespace paceline::test {

ReplicatedShard::ReplicatedShard(ShardId shard, const ServerModel::Run& run, const ShardFaults& faults,
                                 std::int64_t lease_ns, Handlers handlers)
    : shard_(shard), run_(run), faults_(faults), lease_ns_(lease_ns), handlers_(std::move(handlers)) {
  serving_ = &start(ServerModel::Does::kServes);
}

// Between those of shards and of nodes.
Party ReplicatedShard::party() const { return shard_party(shard_.value); }
Party ReplicatedShard::follower_party() const { return 50 + party(); }

ServerModel& ReplicatedShard::start(ServerModel::Does does) {
  const auto number = static_cast<ServerModel::Process>(processes_.size());
  processes_.push_back(
      std::make_unique<ServerModel>(number, shard_, does, run_, acknowledged_, handlers_of(number)));
  return *processes_.back();
}

ServerModel::Handlers ReplicatedShard::handlers_of(ServerModel::Process process) {
  const auto it = [this, process]() -> ServerModel& {
    return *processes_[static_cast<std::size_t>(process)];
  };
  return {handlers_.node,
          handlers_.shard,
          handlers_.authority,
          handlers_.discards,
          [this, it](const wire::Message& message) { to_replica(it(), message); },
          [this, it](const ServerModel::Members& complete) { ask_etcd(it(), complete); },
          [this, it] { died(it()); }};
}

void ReplicatedShard::begin() {
  run_.network.after(run_.network.random_between(0, 3'000'000), [this] { follower_comes(); });
  if (faults_.dies_at_ns) {
    befall(*faults_.dies_at_ns,
           [this] { faults_.dies_in ? serving_->dies(*faults_.dies_in) : serving_->die(); });
  }
  if (faults_.dies_again_at_ns) {
    run_.network.after(*faults_.dies_again_at_ns, [this] {
      if (serving_ != nullptr && serving_->lets_in()) serving_->die();
    });
  }
  if (faults_.follower_dies_at_ns) {
    befall(*faults_.follower_dies_at_ns, [this] {
      ++run_.faults.followers_died;
      follower_->die();
    });
  }
  if (faults_.link_cut_at_ns) befall(*faults_.link_cut_at_ns, [this] { cut_link(); });
  if (faults_.deposed_at_ns) befall(*faults_.deposed_at_ns, [this] { depose(); });
}

void ReplicatedShard::befall(std::int64_t at, std::function<void()> what) {
  run_.network.after(at, [this, what = std::move(what)] {
    if (serving_ == nullptr) return;  // the other one is past it
    const bool not_yet = !serving_->lets_in() && follower_ != nullptr;
    if (not_yet) return befall(1'000'000, what);
    if (follower_ != nullptr && serving_->acts()) what();
  });
}

void ReplicatedShard::follower_comes() {
  if (serving_ == nullptr || !serving_->may_be_followed()) return;
  follower_ = &start(ServerModel::Does::kFollows);
  ServerModel& follower = *follower_;
  run_.network.connect_again(follower_party(), party(), [this, &follower] {
    if (serving_ == nullptr || follower.is_dead()) return;
    serving_->follower_comes(follower.number());
    run_.network.send(party(), follower_party(), [&follower] { follower.send_ack(); });
  });
  if (faults_.first_follower_dies && follower.number() == 1) {
    run_.network.after(run_.network.random_between(0, 4'000'000), [&follower] { follower.die(); });
  }
}

void ReplicatedShard::to_replica(ServerModel& from, const wire::Message& message) {
  if (const auto* held = std::get_if<wire::LogAck>(&message.body)) {
    run_.network.send(follower_party(), party(), [this, &from, count = held->count] {
      if (serving_ != nullptr && follower_ == &from) serving_->follower_holds(count);
    });
  } else if (follower_ != nullptr) {
    run_.network.send(party(), follower_party(),
                      [follower = follower_, message] { follower->on_event(message); });
  }
}

void ReplicatedShard::ask_etcd(ServerModel& from, const ServerModel::Members& complete) {
  const auto delay = [this] { return run_.network.random_between(100'000, 2'000'000); };
  run_.network.after(delay(), [this, &from, complete, back = delay()] {
    if (!from.acts()) {  // nor does it reach etcd
      if (!from.is_dead()) ask_etcd(from, complete);
      return;
    }
    if (!record_.change(from.number(), complete)) return;
    run_.network.after(back, [&from, complete] { from.etcd_has_complete(complete); });
  });
}

void ReplicatedShard::died(ServerModel& which) {
  break_link();
  if (&which == follower_) {
    run_.network.after(run_.network.random_between(0, lease_ns_), [this, &which] {
      if (follower_ != &which) return;
      follower_ = nullptr;
      if (serving_ == nullptr) return;
      serving_->loses_follower();
      if (!serving_->may_be_followed()) return;
      ++run_.faults.followed_again;
      follower_comes();
    });
    return;
  }
  if (&which != serving_) return;  // its place was taken
  ++run_.faults.deaths;
  serving_ = nullptr;
  handlers_.gone();
  run_.network.after(run_.network.random_between(lease_ns_ / 2, lease_ns_),
                     [this, &which] { lease_of_ended(which); });
}

// The other one may take its place, if etcd has it as complete.
void ReplicatedShard::lease_of_ended(ServerModel& which) {
  record_.lease_ends(which.number());
  const bool lives = follower_ != nullptr && !follower_->is_dead();
  const bool by_force = lives && run_.breach == Breach::kIncompleteTakesOver;
  if (by_force) record_.take_over_by_force(follower_->number());
  if (!by_force && !(lives && record_.take_over(follower_->number()))) {
    if (!which.is_dead()) {  // it is the next one, too
      record_.take_over(which.number());
      return which.acts_again();
    }
    ++run_.faults.both_lost;
    return handlers_.lost();
  }
  ++run_.faults.taken_over;
  if (shard_ == kAuthority) ++run_.faults.authorities_taken_over;
  break_link();
  if (serving_ != nullptr) handlers_.gone();
  serving_ = std::exchange(follower_, nullptr);
  serving_->take_over(record_.complete());
  handlers_.served_again();
  if (which.is_dead()) return;
  ++run_.faults.deposed;  // as it learns at once, or later
  run_.network.after(run_.network.random_between(0, lease_ns_), [&which] { which.die(); });
}

// It cannot reach etcd: it goes on with what it is told, and says nothing.
void ReplicatedShard::depose() {
  ServerModel& which = *serving_;
  which.stops_acting();
  run_.network.after(lease_ns_, [this, &which] {
    if (!which.is_dead()) lease_of_ended(which);
  });
}

// The one that follows lives on; the other one does not hear of it.
void ReplicatedShard::cut_link() {
  ++run_.faults.links_cut;
  break_link();
  run_.network.after(run_.network.random_between(lease_ns_ / 2, lease_ns_),
                     [this, serving = serving_] { serving->loses_follower(); });
}

void ReplicatedShard::break_link() { run_.network.break_connection(party(), follower_party()); }

const ServerModel* ReplicatedShard::follower() const {
  if (serving_ == nullptr || follower_ == nullptr || follower_->is_dead()) return nullptr;
  return serving_->is_followed() ? follower_ : nullptr;
}

}  // namespace paceline::test
