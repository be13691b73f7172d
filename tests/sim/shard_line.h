// What the authority and another shard's server say to each other over a connection that may break: each end
// has its real ReliableChannel, so nothing of it is lost, or heard twice.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/wire/messages.h"
#include "server/peers/reliable_channel.h"
#include "tests/sim/counting.h"
#include "tests/sim/network.h"

namespace paceline::test {

class ShardLine {
 public:
  using Receives = std::function<void(const wire::Message&)>;
  // `authority` hears what `shard` says, and the other way round.
  ShardLine(Network& network, ShardId shard, Receives authority, Receives at_shard, Violations& violations)
      : network_(network),
        shard_(shard_party(shard.value)),
        authority_receives_(std::move(authority)),
        shard_receives_(std::move(at_shard)),
        violations_(violations) {}

  void to_shard(const wire::Message& message) {
    authority_channel_.on_send(message);
    send_to_shard(message);
  }
  void to_authority(const wire::Message& message) {
    shard_channel_.on_send(message);
    if (welcomed_) send_to_authority(message);
  }

  void breaks() {
    network_.break_connection(shard_, kAuthorityParty);
    welcomed_ = false;
  }
  bool is_broken() const { return !welcomed_; }
  // The shard does, over another connection.
  void goes_on() {
    network_.connect_again(shard_, kAuthorityParty,
                           [this, received = shard_channel_.ack()] { reconnects(received); });
  }
  std::int64_t retransmitted() const { return retransmitted_; }

 private:
  using Channel = server::ReliableChannel;

  void reconnects(std::int64_t received) {
    check(authority_channel_.on_ack(received));
    network_.send(kAuthorityParty, shard_, [this, own = authority_channel_.ack()] { is_welcomed(own); });
    for (const wire::Message& message : authority_channel_.unacked())
      retransmit(message, Channel::End::kShard);
  }
  void is_welcomed(std::int64_t received) {
    if (network_.is_broken(shard_, kAuthorityParty)) return;  // by now
    welcomed_ = true;
    check(shard_channel_.on_ack(received));
    for (const wire::Message& message : shard_channel_.unacked())
      retransmit(message, Channel::End::kAuthority);
  }
  void retransmit(const wire::Message& message, Channel::End to) {
    ++retransmitted_;
    to == Channel::End::kShard ? send_to_shard(message) : send_to_authority(message);
  }

  void send_to_shard(const wire::Message& message) {
    network_.send(kAuthorityParty, shard_, [this, message] {
      if (!says_acked(shard_channel_, message)) return shard_receives_(message);
      shard_receives_(message);
      network_.send(shard_, kAuthorityParty,
                    [this, received = shard_channel_.ack()] { check(authority_channel_.on_ack(received)); });
    });
  }
  void send_to_authority(const wire::Message& message) {
    network_.send(shard_, kAuthorityParty, [this, message] {
      if (!says_acked(authority_channel_, message)) return authority_receives_(message);
      authority_receives_(message);
      network_.send(kAuthorityParty, shard_,
                    [this, received = authority_channel_.ack()] { check(shard_channel_.on_ack(received)); });
    });
  }
  // As with a heartbeat, too: here after each 8 messages, of whichever end.
  bool says_acked(Channel& channel, const wire::Message& message) {
    const bool at_once = channel.on_receive(message);
    return ++messages_ % 8 == 0 || at_once;
  }
  void check(const Status& received) {
    if (!received.is_ok()) violations_.push_back("server and shard: " + received.message());
  }

  Network& network_;
  const Party shard_;
  Receives authority_receives_, shard_receives_;
  Violations& violations_;
  Channel authority_channel_{Channel::End::kAuthority}, shard_channel_{Channel::End::kShard};
  bool welcomed_ = true;
  std::int64_t messages_ = 0, retransmitted_ = 0;
};

}  // namespace paceline::test
