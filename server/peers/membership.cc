// Who is let in, and who has been silent for too long.
#include "server/peers/membership.h"

#include <algorithm>

#include "common/config/load.h"
#include "common/hex.h"
#include "common/network/stages.h"

namespace paceline::server {
namespace {

std::string hex(std::uint64_t value) { return "0x" + paceline::hex(value); }

Status mismatch(const std::string& who, const std::string& what, const std::string& got,
                const std::string& expected) {
  return invalid_argument(who + ": " + what + " " + got + ", expected " + expected);
}

Status check_protocol(const std::string& who, std::uint32_t got) {
  if (got == wire::kProtocolVersion) return Status::ok();
  return mismatch(who, "protocol version", std::to_string(got), std::to_string(wire::kProtocolVersion));
}

std::string shown(const Tensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  return "'" + tensor.name + "'" + " (" + shape + ")";
}

// Which tensor is another one than that at its place, and both; to be said after the hashes.
std::string first_difference(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  for (std::size_t i = 0; i < std::max(got.size(), expected.size()); ++i) {
    const std::string place = ": tensor " + std::to_string(i);
    if (i >= expected.size()) return place + ": got " + shown(got[i]) + ", expected none";
    if (i >= got.size()) return place + ": got none, expected " + shown(expected[i]);
    const bool alike = got[i].name == expected[i].name && got[i].shape == expected[i].shape;
    if (!alike) return place + ": got " + shown(got[i]) + ", expected " + shown(expected[i]);
    if (got[i].traits != expected[i].traits) {
      const bool may_be_unused = got[i].traits.may_be_unused;
      if (may_be_unused != expected[i].traits.may_be_unused) {
        return place + ": " + shown(got[i]) + (may_be_unused ? " may be unused" : " may not be unused");
      }
      return place + ": " + shown(got[i]) +
             " has another role, or other factors for learning rate and weight decay";
    }
  }
  return "";
}

}  // namespace

Status check_same_configuration(const std::string& who, std::uint64_t got,
                                std::span<const std::string> settings, const RunConfig& expected) {
  const std::uint64_t own = fingerprint(expected);
  if (got == own) return Status::ok();
  const std::string advice = ": give every daemon the same configuration";
  const std::string differ =
      settings.empty() ? "" : differing_settings(settings, paceline::settings(expected));
  if (!differ.empty()) return invalid_argument(who + ": another configuration: " + differ + advice);
  return mismatch(who, "configuration fingerprint", hex(got), hex(own) + advice);
}

Membership::Membership(const RunConfig& config, ShardId self)
    : config_(config),
      cluster_(config.cluster),
      self_(self),
      nodes_(cluster_.nodes),
      shards_(cluster_.shards) {}

Status Membership::check(const wire::Join& join) const {
  const std::string who = "node " + to_string(join.node);
  PACELINE_RETURN_IF_ERROR(check_protocol(who, join.protocol_version));
  if (join.node.value >= cluster_.nodes) {
    return invalid_argument(who + ": the run has nodes 0 to " + std::to_string(cluster_.nodes - 1));
  }
  PACELINE_RETURN_IF_ERROR(check_same_configuration(who, join.config_fingerprint, join.settings, config_));
  if (join.incarnation == 0) return mismatch(who, "incarnation", hex(0), "another: 0 is no process");
  if (join.threads != cluster_.threads_per_node) {
    return mismatch(who, "threads", std::to_string(join.threads), std::to_string(cluster_.threads_per_node));
  }
  if (expected_layout_ && join.layout_hash != *expected_layout_) {
    return mismatch(who, "parameter layout", hex(join.layout_hash),
                    hex(*expected_layout_) + " as the checkpoint has");
  }
  if (first_ && join.layout_hash != first_->layout_hash) {
    return mismatch(who, "parameter layout", hex(join.layout_hash),
                    hex(first_->layout_hash) + " as node " + to_string(first_->node) + " has" +
                        first_difference(join.tensors, first_->tensors));
  }
  if (expected_data_ && join.data_fingerprint != *expected_data_) {
    return mismatch(who, "data fingerprint", hex(join.data_fingerprint),
                    hex(*expected_data_) + " as the checkpoint has: go on with the training data of the run");
  }
  if (first_ && join.data_fingerprint != first_->data_fingerprint) {
    const bool is_cut = cut_by_loop(config_.pipeline.balance);  // ForeignStage's, which knows no data
    return mismatch(who, is_cut ? "cut of the model" : "data fingerprint", hex(join.data_fingerprint),
                    hex(first_->data_fingerprint) + " as node " + to_string(first_->node) +
                        " has: give every node the same " + (is_cut ? "balance" : "training data"));
  }
  return Status::ok();
}

Result<Layout> Membership::admit(const wire::Join& join, const Connection& connection, Ticks now) {
  PACELINE_RETURN_IF_ERROR(check(join));
  const std::string who = "node " + to_string(join.node);
  Layout layout;
  for (const Tensor& tensor : join.tensors) {
    const auto added = layout.add(tensor.name, tensor.shape, tensor.traits);
    if (!added.is_ok()) return Status(added.status()).with_context(who);
  }
  if (layout.hash() != join.layout_hash) {
    return mismatch(who, "parameter layout", hex(join.layout_hash),
                    hex(layout.hash()) + " as its tensors say");
  }
  PACELINE_RETURN_IF_ERROR(enter(Peer::of(join.node), join.incarnation, connection, join.connection, now));
  if (!first_) first_ = {join.node, join.layout_hash, join.data_fingerprint, join.tensors};
  return layout;
}

Status Membership::admit(const wire::ShardJoin& join, const Connection& connection, Ticks now) {
  const std::string who = "shard " + to_string(join.shard);
  PACELINE_RETURN_IF_ERROR(check_protocol(who, join.protocol_version));
  if (join.shard.value >= cluster_.shards || join.shard == self_) {
    return invalid_argument(who + ": the authority expects shards 1 to " +
                            std::to_string(cluster_.shards - 1));
  }
  PACELINE_RETURN_IF_ERROR(check_same_configuration(who, join.config_fingerprint, join.settings, config_));
  if (join.incarnation == 0) return mismatch(who, "incarnation", hex(0), "another: 0 is no process");
  return enter(Peer::of(join.shard), join.incarnation, connection, join.connection, now);
}

Status Membership::enter(Peer peer, std::uint64_t incarnation, const Connection& connection,
                         std::int64_t number, Ticks now) {
  Member& member = at(peer);
  if (member.state == State::kGone) {
    return failed_precondition(to_string(peer) +
                               ": this process of it has gone, and is not taken back; start it anew");
  }
  // A join given twice is harmless; of another connection of the same process go_on() knows what to make.
  const bool same = member.incarnation == incarnation && member.connection == connection;
  if (member.state == State::kPresent && !same) {
    return failed_precondition(to_string(peer) +
                               ": already taken by another process of this run (incarnation " +
                               hex(member.incarnation) + ", got " + hex(incarnation) + ")");
  }
  PACELINE_RETURN_IF_ERROR(check_free(connection, peer));
  if (member.state != State::kPresent) member = {};
  member.state = State::kPresent;
  member.incarnation = incarnation;
  connect(peer, connection, number, now);
  return Status::ok();
}

Status Membership::check_free(const Connection& connection, Peer peer) const {
  const std::optional<Peer> known = connection ? who(*connection) : std::nullopt;
  if (!known || *known == peer) return Status::ok();
  return failed_precondition(to_string(peer) + ": this connection is " + to_string(*known));
}

void Membership::connect(Peer peer, const Connection& connection, std::int64_t number, Ticks now) {
  Member& member = at(peer);
  if (member.connection) connections_.erase(*member.connection);
  member.connection = connection;
  member.connection_number = number;
  member.last_seen = member.joined_at = now;
  if (connection) connections_[*connection] = peer;
}

bool Membership::is_here(Peer peer, std::uint64_t incarnation) const {
  return at(peer).state == State::kPresent && at(peer).incarnation == incarnation;
}

bool Membership::is_here(const wire::Join& join) const {
  if (join.protocol_version != wire::kProtocolVersion || join.node.value >= nodes_.size()) return false;
  return is_here(Peer::of(join.node), join.incarnation);
}

bool Membership::is_here(const wire::ShardJoin& join) const {
  if (join.protocol_version != wire::kProtocolVersion || join.shard.value >= shards_.size()) return false;
  return is_here(Peer::of(join.shard), join.incarnation);
}

bool Membership::is_behind(const wire::Join& join) const {
  return is_here(join) && join.connection < at(Peer::of(join.node)).connection_number;
}

bool Membership::is_behind(const wire::ShardJoin& join) const {
  return is_here(join) && join.connection < at(Peer::of(join.shard)).connection_number;
}

Status Membership::go_on(const wire::Join& join, const Connection& connection, Ticks now) {
  PACELINE_RETURN_IF_ERROR(check(join));
  const Peer peer = Peer::of(join.node);
  if (!is_here(join)) return failed_precondition(to_string(peer) + " has gone from this run");
  return move(peer, connection, join.connection, now);
}

Status Membership::go_on(const wire::ShardJoin& join, const Connection& connection, Ticks now) {
  const Peer peer = Peer::of(join.shard);
  if (!is_here(join)) return failed_precondition(to_string(peer) + " has gone from this run");
  return move(peer, connection, join.connection, now);
}

Status Membership::move(Peer peer, const Connection& connection, std::int64_t number, Ticks now) {
  PACELINE_RETURN_IF_ERROR(check_free(connection, peer));
  Member& member = at(peer);
  if (member.moves_lately == 0 || now - member.lately_since > cluster_.lease) {
    member.moves_lately = 0;
    member.lately_since = now;
  }
  if (++member.moves_lately > kMovesMax) {
    return resource_exhausted(to_string(peer) + ": its connection broke " +
                              std::to_string(member.moves_lately) + " times within a lease");
  }
  connect(peer, connection, number, now);
  ++member.moves;
  return Status::ok();
}

void Membership::adopt(Ticks now) {
  for (const Peer peer : present()) at(peer).last_seen = at(peer).joined_at = now;
}

std::optional<Peer> Membership::who(const wire::PeerId& connection) const {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return std::nullopt;
  return found->second;
}

const wire::PeerId* Membership::connection_of(Peer peer) const {
  const Connection& connection = at(peer).connection;
  return is_present(peer) && connection ? &*connection : nullptr;
}

bool Membership::is_gone(Peer peer) const { return at(peer).state == State::kGone; }

void Membership::seen(Peer peer, Ticks now) { at(peer).last_seen = now; }

std::optional<std::chrono::nanoseconds> Membership::silent_for(Peer peer, Ticks now) const {
  if (at(peer).state != State::kPresent) return std::nullopt;
  return now - at(peer).last_seen;
}

void Membership::discount_pause(const Pause& pause) {
  for (Member& member : nodes_) member.last_seen = pause.discounted(member.last_seen);
  for (Member& member : shards_) member.last_seen = pause.discounted(member.last_seen);
}

std::vector<Membership::Silence> Membership::silent(Ticks now) const {
  std::vector<Silence> result;
  for (const Peer peer : present()) {
    const auto silent = now - at(peer).last_seen;
    if (silent > cluster_.lease) result.push_back({peer, silent});
  }
  return result;
}

// The connection stays known, so that what still comes from it can be refused by name.
void Membership::remove(Peer peer) { at(peer).state = State::kGone; }

void Membership::forget(Peer peer) {
  if (at(peer).connection) connections_.erase(*at(peer).connection);
  at(peer) = {};
}

std::vector<Peer> Membership::present() const {
  std::vector<Peer> result;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].state == State::kPresent) result.push_back(Peer::of(NodeId(i)));
  }
  for (std::uint32_t i = 0; i < shards_.size(); ++i) {
    if (shards_[i].state == State::kPresent) result.push_back(Peer::of(ShardId(i)));
  }
  return result;
}

}  // namespace paceline::server
