// Joining: from a node's first Join until every server has welcomed it into one and the same generation,
// later than any that it has been in.
//
// A node that has lost its servers keeps asking until they are back:
//
//   nothing heard for a lease            the Join again, over the same connection (1), (2)
//   refused, for what may pass           another connection, a second later: this one is of no further use
//   told that it is not its turn yet     likewise, in a first join, too: the process of the node before may
//                                        not be known to be gone (what a Join announces it announces once)
//   silent, or ended, once welcomed      likewise
//   of an older generation than another  likewise, in a first join too: that run is over
//
// (1) Whoever was there may have ended with it unread; to a server that keeps it for later it is harmless.
// A new connection for an unread Join would be a mistake: a server that is to answer the first one later
// would let in a connection that is gone.
//
// (2) To a server that is not there they all wait, and arrive at once when it is; one that finds hundreds of
// them takes the node for a flood. So there are at most kJoinsMax before the node gives up.
//
// Time is passed in. Thread: the I/O thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/wire/messages.h"
#include "worker/client/client_state.h"
#include "worker/client/server_link.h"

namespace paceline {

class Joining {
 public:
  // How soon a server that could not be joined is connected to anew; a lease, where that is shorter.
  static constexpr std::chrono::seconds kAgainAfter{1};

  static constexpr int kJoinsMax = 32;

  // `before`: which servers this node has lost, of generation `last`; kNothing, 0: it joins for the first
  // time. Both outlive this.
  Joining(std::vector<ServerLink>& links, ClientState& state, Lost before, std::uint64_t last,
          const ClusterSection& cluster);

  // Whether all have welcomed the node.
  bool over() const { return over_; }

  void asked(ServerLink& link, Ticks now) const;  // a Join is on its way
  // True where this was the last that the authority waits for: training is under way there, and the node is
  // to say NodeReady.
  bool welcomed(ServerLink& link, const wire::Welcome& welcome, Ticks now);
  // It does not want the node now, or is no longer there; `why` is what is said if nothing else comes.
  void turned_away(ServerLink& link, const std::string& why, Ticks now);

  // Where the server has replicas, and this one has said nothing: the next one is asked instead.
  void give_up_if_silent(ServerLink& link, Ticks now);

  // Whether `error`, which is not fatal, says that a server cannot let the node in yet; then it is asked
  // again.
  bool waits_its_turn(ServerLink& link, const wire::Error& error, const Log& log, Ticks now);

  // Whether a server's word that ends its connection may be another one later. Not in a first join, nor where
  // the two do not fit. An authority that had been lost, and lets the node in no more, has gone on without
  // it; one that had welcomed it since may be at its end, and the next one lets it in.
  bool may_pass(const ServerLink& link, const wire::Error& error) const;
  // Whether the silence of a server, or its end, may pass.
  bool keeps_asking() const { return !over_ && before_ != Lost::kNothing; }

  // How long it may take; and whether it has come to that, by server: kDeadlineExceeded naming those that
  // have not welcomed the node, with what they have said instead. Thread: any.
  std::chrono::nanoseconds timeout(const ClusterSection& cluster) const;
  Status check_joined(const std::vector<ClientState::Standing>& servers, NodeId node,
                      std::chrono::nanoseconds waited) const;

  enum class Due { kNothing, kJoin, kConnection };
  Due due(const ServerLink& link, Ticks now) const;

 private:
  std::vector<ServerLink>& links_;
  ClientState& state_;
  const Lost before_;
  const std::uint64_t last_;
  const std::chrono::nanoseconds lease_;
  const std::chrono::nanoseconds join_again_after_;
  bool over_ = false;
  bool under_way_ = false;  // as the authority has said
};

}  // namespace paceline
