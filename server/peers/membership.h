// Membership: which connections belong to which nodes and shards, and when each was last heard from. Pure:
// time is passed in, so leases are tested without waiting.
//
// Who has joined stays the only one of its number: another process (told apart by its incarnation) is an
// intruder. The same process may move to another connection (go_on()), since one may break while both ends
// live. Who has gone (lost, or left) does not come back, over whatever connection; another process of the
// same node may, once the one before is forgotten (forget(); sessions/late_joins.h says when).
//
// Where a shard has two replicas a peer may have joined it at the other one, and not have come to this one yet:
// it is here, and nothing can be sent to it (is_elsewhere()).
//
// Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/params/layout.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"
#include "server/peers/peer.h"

namespace paceline::server {

// OK where `who` has this configuration's fingerprint; else kInvalidArgument, naming the keys whose values
// differ (common/config/load.h), or, where none is known, the fingerprints.
[[nodiscard]] Status check_same_configuration(const std::string& who, std::uint64_t got,
                                              std::span<const std::string> settings,
                                              const RunConfig& expected);

class Membership {
 public:
  // Nothing: the peer has joined the shard at its other replica, and has not come to this one.
  using Connection = std::optional<wire::PeerId>;

  // `self`: the shard that asks.
  Membership(const RunConfig& config, ShardId self);

  // Accepts a node and returns its layout, or says what does not fit: got and expected.
  // Errors: kInvalidArgument protocol version, fingerprint, node number, threads, a layout that contradicts
  // its hash or differs from that of the first node; kFailedPrecondition the number is taken, or its node has
  // gone.
  Result<Layout> admit(const wire::Join& join, const Connection& connection, Ticks now);
  // Whether this is the process that is here: it says so over another connection, since the one before broke.
  bool is_here(const wire::Join& join) const;
  bool is_here(const wire::ShardJoin& join) const;
  // Whether that process has joined over a later connection than this one already.
  bool is_behind(const wire::Join& join) const;
  bool is_behind(const wire::ShardJoin& join) const;
  // From now on it is behind `connection`; what its connection before still says is a stranger's. Errors:
  // kInvalidArgument as admit(), of a layout as it said before; kFailedPrecondition it is not here, or
  // `connection` is somebody else's; kResourceExhausted it has done so kMovesMax times within a lease, which
  // no network does to it: it is to be lost.
  static constexpr int kMovesMax = 64;
  [[nodiscard]] Status go_on(const wire::Join& join, const Connection& connection, Ticks now);
  [[nodiscard]] Status go_on(const wire::ShardJoin& join, const Connection& connection, Ticks now);
  // How often that process has.
  std::int64_t moves_of(Peer peer) const { return at(peer).moves; }
  std::int64_t moves_of(NodeId node) const { return moves_of(Peer::of(node)); }
  // The same as the first for another shard, at the authority.
  [[nodiscard]] Status admit(const wire::ShardJoin& join, const Connection& connection, Ticks now);
  // What admit() says of the join itself, wherever it comes from.
  [[nodiscard]] Status check(const wire::Join& join) const;

  // The run is resumed: every node must have this layout, that of the checkpoint.
  void expect_layout(std::uint64_t hash) { expected_layout_ = hash; }
  // And these data, where it says them.
  void expect_data(std::uint64_t fingerprint) { expected_data_ = fingerprint; }

  std::optional<Peer> who(const wire::PeerId& connection) const;
  // Where to send to; nullptr when the peer has not joined, has gone, or is elsewhere.
  const wire::PeerId* connection_of(Peer peer) const;
  // The connection it came over, whether it is still there or not; nothing when it has never come.
  const Connection& last_connection_of(Peer peer) const { return at(peer).connection; }
  // It has joined, and has not gone.
  bool is_present(Peer peer) const { return at(peer).state == State::kPresent; }
  // It is present, at the other replica alone.
  bool is_elsewhere(Peer peer) const { return is_present(peer) && !at(peer).connection; }
  bool has_joined(Peer peer) const { return at(peer).state != State::kMissing; }  // it may have gone since
  bool is_gone(Peer peer) const;
  // Of the process that joined last; 0: none has.
  std::uint64_t incarnation_of(NodeId node) const { return nodes_[node.value].incarnation; }

  void seen(Peer peer, Ticks now);
  // Whether anything has come from it after `when`.
  bool seen_since(Peer peer, Ticks when) const { return at(peer).last_seen > when; }
  // When the last join of it was accepted.
  Ticks joined_at(Peer peer) const { return at(peer).joined_at; }
  // How long nothing has come from it; nothing where it is not here.
  std::optional<std::chrono::nanoseconds> silent_for(Peer peer, Ticks now) const;
  // This process itself did not run for that long: nobody else is to blame for the silence.
  void discount_pause(const Pause& pause);
  // Those present that have been silent for longer than the lease, and for how long.
  struct Silence {
    Peer peer;
    std::chrono::nanoseconds silent{0};
  };
  std::vector<Silence> silent(Ticks now) const;

  // Another server was here before: everybody present has been heard of just now, and is yet to come.
  void adopt(Ticks now);

  void remove(Peer peer);
  // As if it had never come: it, or another process, may join, and what its connection still says is a
  // stranger's.
  void forget(Peer peer);

  std::vector<Peer> present() const;

 private:
  enum class State { kMissing, kPresent, kGone };
  struct Member {
    State state = State::kMissing;
    std::uint64_t incarnation = 0;
    Connection connection;
    std::int64_t connection_number = 0;  // as its process counts them
    Ticks last_seen;
    Ticks joined_at;
    std::int64_t moves = 0;
    int moves_lately = 0;  // since
    Ticks lately_since{};
  };
  Member& at(Peer peer) { return (peer.is_node() ? nodes_ : shards_)[peer.number]; }
  const Member& at(Peer peer) const { return (peer.is_node() ? nodes_ : shards_)[peer.number]; }
  [[nodiscard]] Status enter(Peer peer, std::uint64_t incarnation, const Connection& connection,
                             std::int64_t number, Ticks now);
  // Errors: kFailedPrecondition it is somebody else's.
  [[nodiscard]] Status check_free(const Connection& connection, Peer peer) const;
  void connect(Peer peer, const Connection& connection, std::int64_t number, Ticks now);
  bool is_here(Peer peer, std::uint64_t incarnation) const;
  [[nodiscard]] Status move(Peer peer, const Connection& connection, std::int64_t number, Ticks now);

  RunConfig config_;
  ClusterSection cluster_;
  ShardId self_;
  std::vector<Member> nodes_;
  std::vector<Member> shards_;
  std::unordered_map<wire::PeerId, Peer> connections_;
  // Of the first node that was let in: what the others must have, too.
  struct FirstNode {
    NodeId node;
    std::uint64_t layout_hash = 0;
    std::uint64_t data_fingerprint = 0;
    std::vector<Tensor> tensors = {};  // of its layout
  };
  std::optional<FirstNode> first_;
  std::optional<std::uint64_t> expected_layout_;
  std::optional<std::uint64_t> expected_data_;
};

}  // namespace paceline::server
