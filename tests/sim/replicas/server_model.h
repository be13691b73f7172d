// ServerModel: one server process of a shard that has two: the real ReplicaRole and ServerChannels, driven over a
// simulated network, around a ReplicaState in place of a shard and an authority.
//
//   serves    what comes in is an event, told to the follower turn by turn, and done; what that leads to is
//             held until the follower has it
//   follows   does the same with the same events, and says nothing; LogAck after each turn
//
// Connections, absent peers and etcd's word are each process's own: they are in no event. Of etcd it has what
// ShardLease asks for: who is noted as complete, by answers that take their time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "server/peers/server_channels.h"
#include "server/replicas/replica_role.h"
#include "tests/sim/replicas/acknowledged.h"
#include "tests/sim/replicas/replica_faults.h"
#include "tests/sim/replicas/replica_state.h"
#include "tests/sim/replicas/serving_record.h"

namespace paceline::test {

class ServerModel final : private server::ShardLease {
 public:
  using Does = server::ReplicaRole::Does;
  using Process = ServingRecord::Process;
  using Members = ServingRecord::Members;

  // What all processes of a run have in common.
  struct Run {
    const RunPlan& plan;
    Network& network;
    Violations& violations;
    ReplicaFaults& faults;
    const std::int64_t& clocks;
    Breach breach = Breach::kNone;
  };
  // Where what it says goes, once it may.
  struct Handlers {
    std::function<void(Party, const wire::Message&)> node;
    std::function<void(ShardId, const wire::Message&)> shard;  // the authority's: another shard
    std::function<void(const wire::Message&)> authority;       // another shard's
    std::function<void(const wire::Message&)> discards;        // what became of a gradient
    std::function<void(const wire::Message&)> replica;         // the other one: events, LogAck
    std::function<void(Members)> etcd;                         // these are to be complete
    std::function<void()> died;
  };
  // In the middle of what one that serves dies: after so many more events; so many more turns, of which the
  // follower is sent a part; or so many more messages that it has said.
  struct Death {
    enum class In { kTurn, kTelling, kTellingOfALoss, kRelease } in = In::kTurn;
    int after = 0;
  };

  ServerModel(Process number, ShardId shard, Does does, const Run& run, Acknowledged& acknowledged,
              Handlers handlers);

  Process number() const { return number_; }
  bool is_dead() const { return dead_; }
  bool lets_in() const { return !dead_ && role_.serves() && acts_ && !role_.waits_for_follower(); }
  // What it was told last, if it serves.
  bool acts() const override { return acts_; }
  bool may_be_followed() const { return role_.log().may_be_followed(); }
  ReplicaState& state() { return state_; }
  const ReplicaState& state() const { return state_; }

  // ---- nodes (server_model_peers.cc)
  // It has read the first of another connection.
  void node_joins(NodeId node, Party who);
  bool has_another_process_of(NodeId node, Party who) const;
  void node_sends(NodeId node, Party who, const wire::Message& message);
  // Since then its connection is broken, or it has not come to this process.
  void is_absent(Party who, std::int64_t since) { absent_[who] = since; }
  bool is_absent_since(Party who, std::int64_t since) const {
    const auto found = absent_.find(who);
    return found != absent_.end() && found->second == since;
  }
  void misses(NodeId node);
  void stop(const std::string& why);

  // ---- the authority and the other shards (server_model_peers.cc)
  void shard_joins(ShardId shard, std::int64_t received);
  void shard_sends(ShardId shard, const wire::Message& message);
  void authority_broke() { welcomed_ = asks_ = false; }
  bool is_welcomed() const { return welcomed_; }
  bool all_is_held() const { return role_.all_is_held(); }
  // It makes another connection: what it then says first.
  std::int64_t asks() {
    asks_ = true;
    return channels_.authority().ack();
  }
  void authority_sends(const wire::Message& message);
  std::int64_t retransmitted() const { return retransmitted_; }

  // ---- the other replica, and etcd (server_model_replicas.cc)
  void follower_comes(Process follower);
  void follower_holds(std::int64_t count);
  void loses_follower();
  bool is_followed() const { return role_.follower().has_value(); }
  void etcd_has_complete(const Members& complete);
  void stops_acting() { acts_ = false; }
  void acts_again();
  void on_event(const wire::Message& event);
  // It has come where the one that serves waits for it.
  void send_ack() { handlers_.replica({wire::LogAck{role_.followed().applied()}, {}, {}}); }
  void take_over(const Members& complete);

  void dies(Death death) { death_ = death; }
  void die();

 private:
  using As = wire::LogEntry::As;
  using What = wire::LocalEvent::What;
  using Peer = server::Peer;

  ReplicaState::Handlers handlers_of_state();
  bool is_authority() const { return state_.shard() == kAuthority; }
  bool serves() const { return !dead_ && role_.serves(); }
  Ticks now() const { return Ticks(run_.network.now_ns()); }
  bool chance(std::uint64_t one_in) { return run_.network.random().next_below(one_in) == 0; }
  void check(const Status& status, const std::string& what);

  // ---- server_model.cc
  // Whatever one message, or one moment, leads to.
  template <typename Leads>
  void turn(Leads&& leads) {
    if (dead_) return;
    if (is_authority() && lets_in() && chance(10)) {
      happens(As::kLocalEvent, Peer::of(state_.shard()), wire::LocalEvent{.what = What::kTick});
      end_turn();
    }
    if (dead_) return;
    leads();
    end_turn();
  }
  wire::Message note(As as, Peer who, wire::Body body, wire::Payload payload = {});
  void happens(As as, Peer who, wire::Body body, wire::Payload payload = {});
  void end_turn();
  bool dies_telling(const std::vector<wire::Message>& turn);
  bool dies_in(Death::In in) { return death_ && death_->in == in && --death_->after < 0; }
  void hold(const server::EventLog::To& to, wire::Message message);
  void release();
  void send_output(const server::EventLog::Output& output);
  // What its shard comes to say: at once, or later.
  void on_shard_sends(const wire::Message& message);
  void send_as_shard(const wire::Message& message);
  void send_next_as_shard();
  void to_authority(const wire::Message& message);
  void compare(const std::optional<server::UncommittedOutputs::BothSaved>& saved);

  // ---- server_model_peers.cc
  void to_node(NodeId node, const wire::Message& message);
  void to_shard(ShardId shard, const wire::Message& message);
  void send_unacked();
  bool takes_and_acks(server::ReliableChannel& channel, const wire::Message& message) {
    const bool at_once = channel.on_receive(message);
    return ++received_ % 8 == 0 || at_once;  // as with a heartbeat, too
  }

  // ---- server_model_replicas.cc
  void apply(const wire::Message& event);
  void other_received(const wire::Message& event);
  // As ShardLease.
  Members must_hold() const override;
  bool has_complete(Incarnation replica) const override {
    return known_.contains(replica) && wanted_.contains(replica);
  }
  bool set_complete(Members members) override;
  std::string describe() const override { return "simulated"; }

  const Process number_;
  const Run& run_;
  Acknowledged& acknowledged_;
  Handlers handlers_;
  bool dead_ = false, acts_ = true;
  std::optional<Death> death_;

  // What it has of the run, by the events.
  ReplicaState state_;
  server::ServerChannels channels_;
  std::set<ShardId> shards_here_;

  // Its own.
  server::ReplicaRole role_;
  std::map<Party, wire::PeerId> connection_of_;  // nodes that have come to this process
  std::map<wire::PeerId, Party> node_at_;
  std::map<ShardId, wire::PeerId> shard_connection_of_;
  std::map<wire::PeerId, ShardId> shard_at_;
  std::map<Party, std::int64_t> absent_;  // since when
  int connections_ = 0;
  bool welcomed_ = false, asks_ = false;  // by the authority; since it was asked
  std::int64_t received_ = 0, retransmitted_ = 0;
  std::deque<wire::Message> late_;  // of its shard's, that it has yet to say

  Members wanted_, known_;        // as complete: by this one, by etcd
  std::optional<Members> asked_;  // of etcd, and not answered
};

}  // namespace paceline::test
