// What a simulated node says to one server: the socket of a real ServerLink, so that the node's own classes
// (worker/client) say it, and say it again behind a connection that broke.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "common/wire/transport.h"

namespace paceline::test {

class NodeSocket final : public wire::DealerSocket {
 public:
  using Say = std::function<void(wire::Message)>;
  explicit NodeSocket(Say say) : say_(std::move(say)) {}

  Status send(wire::Message message) override {
    say_(std::move(message));
    return Status::ok();
  }
  Ticks received_at() const override { return {}; }
  Status shares_memory() const override { return unavailable("there is no memory to share"); }
  std::shared_ptr<const void> lent() const override { return nullptr; }
  const wire::TrafficCounters& counters() const override { return counters_; }
  void close(Queued) override {}

 private:
  Say say_;
  wire::TrafficCounters counters_;
};

}  // namespace paceline::test
