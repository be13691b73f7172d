#include "tests/process/relay.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/assert.h"

namespace paceline::testing {

Relay::Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Delay delay)
    : context_(context), server_(server), delay_(std::move(delay)) {
  wire::TransportOptions options;
  options.on_unsent = [](const wire::PeerId&, const Status&) {};  // as in go_on()
  auto router = wire::RouterSocket::bind(context, io_, endpoint, options,
                                         [this](const wire::PeerId& from, Result<wire::Message> message) {
                                           come(link_of(from).up, std::move(message));
                                         });
  PACELINE_ASSERT(router.is_ok(), router.status().message());
  router_ = std::move(router).value();
  endpoint_ = router_->endpoint();
  thread_ = std::thread([this] {
    const auto until_stopped = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

Relay::~Relay() {
  boost::asio::post(io_, [this] {
    router_->close();
    // Nobody speaks any more: what is left is for those who have gone.
    for (auto& [node, link] : links_) link->dealer->close(wire::DealerSocket::Queued::kIsDropped);
    io_.stop();
  });
  thread_.join();
}

Relay::Link& Relay::link_of(const wire::PeerId& node) {
  std::unique_ptr<Link>& link = links_[node];
  if (link != nullptr) return *link;
  link = std::make_unique<Link>(node, io_);
  wire::TransportOptions options;
  options.on_unsent = [](const wire::PeerId&, const Status&) {};
  auto dealer = wire::DealerSocket::connect(
      context_, io_, server_, options,
      [this, at = link.get()](Result<wire::Message> message) { come(at->down, std::move(message)); });
  PACELINE_ASSERT(dealer.is_ok(), dealer.status().message());
  link->dealer = std::move(dealer).value();
  link->up.send = [at = link.get()](wire::Message message) { return at->dealer->send(std::move(message)); };
  link->down.send = [this, node](wire::Message message) { return router_->send(node, std::move(message)); };
  return *link;
}

void Relay::come(Way& way, Result<wire::Message> message) {
  PACELINE_ASSERT(message.is_ok(), message.status().message());
  const std::chrono::nanoseconds delay = delay_(way.node, message->body);
  way.waiting.push_back({std::move(message).value(), Clock::now(), delay});
  if (way.waiting.size() == 1) go_on(way);
}

void Relay::go_on(Way& way) {
  while (!way.waiting.empty()) {
    Waiting& first = way.waiting.front();
    const auto now = Clock::now();
    if (now < first.came + first.delay) {
      way.timer.expires_at(first.came + first.delay);
      way.timer.async_wait([this, &way](const boost::system::error_code& error) {
        if (!error) go_on(way);
      });
      return;
    }
    if (first.delay.count() > 0) held_ns_ += std::chrono::nanoseconds(now - first.came).count();
    // Whoever has gone at the end of a run need not hear the other's last heartbeat.
    (void)way.send(std::move(first.message));
    way.waiting.pop_front();
  }
}

}  // namespace paceline::testing
