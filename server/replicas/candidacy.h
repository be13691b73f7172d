// Candidacy: a replica's Primacy, kept up with a real etcd in real time.
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "common/status.h"
#include "server/replicas/etcd_client.h"
#include "server/replicas/primacy.h"

namespace paceline::server {

class Candidacy {
 public:
  // `changed` is called after each of etcd's answers, from the loop.
  Candidacy(boost::asio::io_context& io, std::unique_ptr<EtcdClient> etcd, Primacy primacy,
            std::function<void()> changed);
  Candidacy(const Candidacy&) = delete;

  // Begins to ask.
  void start() { ask(); }
  // Whether this replica may act, by the clock of this machine now.
  bool acts() const;
  const Primacy& primacy() const { return primacy_; }
  bool set_complete(Primacy::Members members);
  // Gives the lease back; `after` is called when that is done, or is not to be had.
  void resign(Primacy::Leave leave, std::function<void()> after);
  void stop() { timer_.cancel(); }

 private:
  void ask();

  std::unique_ptr<EtcdClient> etcd_;
  Primacy primacy_;
  const std::function<void()> changed_;
  std::function<void()> resigned_;
  boost::asio::steady_timer timer_;
};

}  // namespace paceline::server
