// ServerRequests: what the process of a server asks of it, by signals and the like: done by the loop, after what
// it has to do.
//
// Thread: any, for each call; not from a signal handler.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <utility>

#include "server/loop/own_authority.h"
#include "server/replicas/replica_role.h"
#include "server/run/end_of_run.h"
#include "server/run/resuming.h"
#include "server/run/run_display.h"
#include "server/run/server_view.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class ServerRequests {
 public:
  // Whom they concern. All outlive this.
  struct Of {
    const ServerSetup& setup;
    const RunClock& clock;
    EndOfRun& end;
    ReplicaRole& role;
    OwnAuthority& authority;
    AuthorityLink& link;
    Resuming& resuming;
    const ServerView& view;
    RunDisplay& display;
  };
  // `drain` is called after what was asked of the authority.
  ServerRequests(boost::asio::io_context& io, Of of, std::function<void()> drain)
      : io_(io), of_(of), drain_(std::move(drain)) {}

  // The run's orderly end.
  void stop(const std::string& reason);
  // The program of a node that has not joined will not come. An authority that does not know yet what the run goes on
  // from waits for it all the same.
  void program_ended(NodeId node, const std::string& how);
  // Another shard than the authority: goes at once.
  void leave(const std::string& reason);
  // Writes into the log what is waited for now, and why.
  void explain();
  void save_checkpoint();

 private:
  void stop_now(const std::string& reason);
  void save_now();

  boost::asio::io_context& io_;
  const Of of_;
  const std::function<void()> drain_;
};

}  // namespace paceline::server
