#include "tests/process/relay.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/assert.h"

namespace paceline::testing {
namespace {

// Whoever has gone at the end of a run need not hear the other's last heartbeat.
wire::TransportOptions without_complaint() {
  wire::TransportOptions options;
  options.on_unsent = [](const wire::PeerId&, const Status&) {};
  return options;
}

}  // namespace

Relay::Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Observe observe)
    : context_(context), server_(server), observe_(std::move(observe)) {
  auto router = wire::RouterSocket::bind(context, io_, endpoint, without_complaint(),
                                         [this](const wire::PeerId& from, Result<wire::Message> message) {
                                           (void)dealer_of(from).send(shown(from, std::move(message)));
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
    for (auto& [node, dealer] : dealers_) dealer->close(wire::DealerSocket::Queued::kIsDropped);
    io_.stop();
  });
  thread_.join();
}

wire::DealerSocket& Relay::dealer_of(const wire::PeerId& node) {
  std::unique_ptr<wire::DealerSocket>& known = dealers_[node];
  if (known != nullptr) return *known;
  auto dealer = wire::DealerSocket::connect(context_, io_, server_, without_complaint(),
                                            [this, node](Result<wire::Message> message) {
                                              (void)router_->send(node, shown(node, std::move(message)));
                                            });
  PACELINE_ASSERT(dealer.is_ok(), dealer.status().message());
  known = std::move(dealer).value();
  return *known;
}

wire::Message Relay::shown(const wire::PeerId& node, Result<wire::Message> message) const {
  PACELINE_ASSERT(message.is_ok(), message.status().message());
  observe_(node, message->body);
  return std::move(message).value();
}

}  // namespace paceline::testing
