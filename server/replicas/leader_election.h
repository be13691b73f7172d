// LeaderElection: a replica's LeaderLease, kept up with a real etcd in real time.
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "server/replicas/etcd_client.h"
#include "server/replicas/leader_lease.h"
#include "server/replicas/shard_lease.h"

namespace paceline::server {

class LeaderElection final : public ShardLease {
 public:
  // `changed` is called after each of etcd's answers, from the loop.
  LeaderElection(boost::asio::io_context& io, std::unique_ptr<EtcdClient> etcd, LeaderLease leader_lease,
                 std::function<void()> changed);
  LeaderElection(const LeaderElection&) = delete;

  // Begins to ask.
  void start() { ask(); }
  // Whether this replica may act, by the clock of this machine now.
  bool acts() const override;
  const LeaderLease& leader_lease() const { return leader_lease_; }
  Members must_hold() const override { return leader_lease_.must_hold(); }
  bool has_complete(Incarnation replica) const override { return leader_lease_.has_complete(replica); }
  bool set_complete(Members members) override;
  std::string describe() const override;
  // Gives the lease back; `after` is called when that is done, or is not to be had.
  void resign(LeaderLease::Resign how, std::function<void()> after);
  void stop() { timer_.cancel(); }

 private:
  void ask();

  std::unique_ptr<EtcdClient> etcd_;
  LeaderLease leader_lease_;
  const std::function<void()> changed_;
  std::function<void()> resigned_;
  boost::asio::steady_timer timer_;
};

}  // namespace paceline::server
