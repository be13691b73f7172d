// What a simulated node says to one server: the socket of a real ServerLink, so that the node's own classes
// (worker/client) say it, and say it again after a connection that broke.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/wire/transport.h"

namespace paceline::test {

class NodeSocket final : public wire::DealerSocket {
 public:
  using Send = std::function<void(wire::Message)>;
  explicit NodeSocket(Send send) : send_(std::move(send)) {}

  Status send(wire::Message message) override {
    send_(std::move(message));
    return Status::ok();
  }
  Ticks received_at() const override { return {}; }
  Status shares_memory() const override { return unavailable("there is no memory to share"); }
  std::shared_ptr<const void> lent() const override { return nullptr; }
  const wire::TrafficCounters& counters() const override { return counters_; }
  void close(Queued) override {}

 private:
  Send send_;
  wire::TrafficCounters counters_;
};

}  // namespace paceline::test
