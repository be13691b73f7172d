#include "common/wire/zmq_handshakes.h"

#include <cerrno>
#include <utility>

#include "common/ticks.h"

namespace paceline::wire {
namespace {

constexpr int kHandshakeKinds = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                ZMQ_EVENT_DISCONNECTED;

}  // namespace

Handshakes::Handshakes(Context::Impl& context, boost::asio::io_context& io, zmq::socket_t& socket,
                       std::string own_name, std::function<void(const Status&)> on_denied,
                       std::function<void()> on_broken)
    : wake_(io),
      own_name_(std::move(own_name)),
      on_denied_(std::move(on_denied)),
      on_broken_(std::move(on_broken)) {
  monitor_.emplace(context, socket, kHandshakeKinds);
  wake_.assign(monitor_->descriptor());
}

void Handshakes::start() { read(); }

void Handshakes::close() {
  if (wake_.is_open()) wake_.release();  // the descriptor is ZeroMQ's to close
  monitor_.reset();
}

// Until nothing is there: only then is the descriptor waited for.
void Handshakes::read() {
  while (monitor_) {
    const std::optional<ZmqMonitor::Event> event = monitor_->next();
    if (!event) break;
    if (event->kind == ZMQ_EVENT_DISCONNECTED) {  // handshakes that fail end in it, too
      if (std::exchange(stands_, false)) on_broken_();
      continue;
    }
    if (event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) stands_ = true;
    if (const auto fault = fault_of(*event)) on_denied_(handshake_failed(*fault, own_name_));
  }
  if (!monitor_) return;  // closed by whom it told
  wake_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](const boost::system::error_code& error) {
                     if (!error) self->read();
                   });
}

std::optional<HandshakeFault> Handshakes::fault_of(const ZmqMonitor::Event& event) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
    // Its value is an errno. A server that is only slow, or stopped, ends nothing.
    if (event.value == ECONNRESET) broken_.ended_otherwise();
    if (event.value != EPIPE || own_name_.empty()) return std::nullopt;
    return broken_.ended_in_order(steady_now()) ? std::optional(HandshakeFault::kBrokenOff) : std::nullopt;
  }
  broken_.ended_otherwise();
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return HandshakeFault::kNotOnTheList;
  if (event.kind != ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) return std::nullopt;
  return event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? HandshakeFault::kOtherKind
                                                                   : HandshakeFault::kWrongWords;
}

}  // namespace paceline::wire
