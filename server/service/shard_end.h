// ShardEnd: what a shard does once the authority has said that the run is over: it writes its part of the trace,
// and reports what it has counted. What it recorded is there before it says that it is done, so that the
// authority finds it.
//
// Thread: the server's loop.
#pragma once

#include "server/loop/background.h"
#include "server/loop/own_authority.h"
#include "server/run/end_of_run.h"
#include "server/service/shard_service.h"
#include "server/sessions/peer_connections.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class ShardEnd {
 public:
  // All outlive this, and it all that `background` still calls.
  ShardEnd(const ServerSetup& setup, EndOfRun& end, PeerConnections& connections, const ShardService& service,
           const OwnAuthority& authority, AuthorityLink& link, Background& background, Outbox& outbox)
      : setup_(setup),
        end_(end),
        connections_(connections),
        service_(service),
        authority_(authority),
        link_(link),
        background_(background),
        outbox_(outbox) {}

  void run_over(const wire::RunOver& over);

 private:
  void is_done(const wire::RunOver& over);
  void report();

  const ServerSetup& setup_;
  EndOfRun& end_;
  PeerConnections& connections_;
  const ShardService& service_;
  const OwnAuthority& authority_;
  AuthorityLink& link_;
  Background& background_;
  Outbox& outbox_;
};

}  // namespace paceline::server
