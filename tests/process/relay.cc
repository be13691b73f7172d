#include "tests/process/relay.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/assert.h"

namespace paceline::testing {

Relay::Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Delay delay)
    : delay_(std::move(delay)) {
  auto router = wire::RouterSocket::bind(context, io_, endpoint, {},
                                         [this](const wire::PeerId& from, Result<wire::Message> message) {
                                           node_ = from;
                                           come(up_, std::move(message));
                                         });
  PACELINE_ASSERT(router.is_ok(), router.status().message());
  router_ = std::move(router).value();
  auto dealer = wire::DealerSocket::connect(
      context, io_, server, {}, [this](Result<wire::Message> message) { come(down_, std::move(message)); });
  PACELINE_ASSERT(dealer.is_ok(), dealer.status().message());
  dealer_ = std::move(dealer).value();
  up_.send = [this](wire::Message message) { return dealer_->send(std::move(message)); };
  down_.send = [this](wire::Message message) { return router_->send(node_, std::move(message)); };
  thread_ = std::thread([this] {
    const auto until_stopped = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

Relay::~Relay() {
  boost::asio::post(io_, [this] {
    router_->close();
    dealer_->close();
    io_.stop();
  });
  thread_.join();
}

void Relay::come(Way& way, Result<wire::Message> message) {
  PACELINE_ASSERT(message.is_ok(), message.status().message());
  const std::chrono::nanoseconds delay = delay_(message->body);
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
