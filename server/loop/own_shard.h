// OwnShard: what follows in a server when its shard is broken, and what the shard does by itself: it answers once
// replies have left, and works ahead while nobody has anything for it.
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "server/replicas/replication.h"
#include "server/run/resuming.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class OwnShard {
 public:
  // Where what it is told, and what it comes to, goes. All outlive this; `replication` may be null.
  struct Around {
    const ServerSetup& setup;
    const RunClock& clock;
    const EndOfRun& end;
    ReplicaRole& role;
    OwnAuthority& authority;
    AuthorityLink& link;
    Resuming& resuming;
    const std::unique_ptr<Replication>& replication;
  };
  // `drain` is called after what comes from elsewhere than a message.
  OwnShard(boost::asio::io_context& io, ShardService& service, Around around, std::function<void()> drain)
      : io_(io), service_(service), around_(around), drain_(std::move(drain)) {}

  // What it says after each call. One that is broken ends the run, or this server.
  void on_status(const Status& state);
  void on_replies_sent();
  // Has it work ahead, after what the sockets have for us: they are looked at again before each piece of it.
  void work_ahead();

 private:
  void do_ahead();

  boost::asio::io_context& io_;
  ShardService& service_;
  const Around around_;
  const std::function<void()> drain_;
  bool works_ahead_ = false;  // do_ahead() is to be called
};

}  // namespace paceline::server
