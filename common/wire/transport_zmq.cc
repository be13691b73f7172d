// The sockets of transport.h, on ZeroMQ: a router and a dealer are faces of a Pump (zmq_pump.h), which are
// bound and connected here. With zmq_*.cc the only place that sees ZeroMQ.
#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/host_port.h"
#include "common/wire/endpoint.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_pump.h"

namespace paceline::wire {

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

namespace {

class ZmqRouter final : public RouterSocket {
 public:
  explicit ZmqRouter(std::shared_ptr<Pump> pump)
      : pump_(std::move(pump)), endpoint_(pump_->socket().get(zmq::sockopt::last_endpoint)) {}
  ~ZmqRouter() override { pump_->close(); }
  std::string endpoint() const override { return endpoint_; }
  Status send(const PeerId& to, Message message) override { return pump_->send(&to, std::move(message)); }
  void flush() override { pump_->flush(); }
  std::int64_t waiting(const PeerId& to) const override { return pump_->waiting(to); }
  void remember(const PeerId& from) override { pump_->accepted().remember(from); }
  Status share_memory(const PeerId& from, std::shared_ptr<SharedSegment> memory,
                      std::int64_t theirs_bytes_max) override {
    return pump_->share_memory(from, memory, theirs_bytes_max);
  }
  Status shares_memory(const PeerId& peer) const override { return pump_->shares_memory(peer); }
  void unmap(const PeerId& peer) override { pump_->unmap(peer); }
  Status disconnect(const PeerId& peer) override { return pump_->disconnect(peer); }
  void give_up(const PeerId& peer) override { pump_->give_up(peer); }
  int break_unfinished(std::vector<PeerId>* whose) override { return pump_->break_unfinished(whose); }
  std::vector<std::string> keep_out(Ticks now) override { return pump_->keep_out(now); }
  std::string key_name() const override { return pump_->accepted().key_name(); }
  bool count_malformed(const PeerId& from) override { return pump_->count_wrong(from, Wrong::kMalformed); }
  bool count_rejected(const PeerId& from) override { return pump_->count_wrong(from, Wrong::kRejected); }
  bool count_rejected_join(const PeerId& from) override { return pump_->count_wrong(from, Wrong::kJoin); }
  const TrafficCounters& counters() const override { return pump_->counters(); }
  void close() override { pump_->close(); }

 private:
  std::shared_ptr<Pump> pump_;
  std::string endpoint_;
};

class ZmqDealer final : public DealerSocket {
 public:
  explicit ZmqDealer(std::shared_ptr<Pump> pump) : pump_(std::move(pump)) {}
  ~ZmqDealer() override { pump_->close(); }
  Status send(Message message) override { return pump_->send(nullptr, std::move(message)); }
  Ticks received_at() const override { return pump_->received_at(); }
  Status shares_memory() const override { return pump_->shares_memory(PeerId()); }
  std::shared_ptr<const void> lent() const override { return pump_->lent(); }
  const TrafficCounters& counters() const override { return pump_->counters(); }
  void close(Queued queued) override {
    if (queued == Queued::kIsDropped) pump_->do_not_linger();
    pump_->close();
  }

 private:
  std::shared_ptr<Pump> pump_;
};

// What to say where `what`, which names the endpoint, failed with an error of ZeroMQ's.
Status refused(const std::string& what, const std::string& endpoint, int error) {
  const std::string line = what + " " + endpoint + ": " + zmq_strerror(error);
  const bool malformed = error == EINVAL || error == EPROTONOSUPPORT || error == ENAMETOOLONG;
  return malformed ? invalid_argument(line + "; expected tcp://host:port or ipc://path") : unavailable(line);
}

// Binds; a host name that ZeroMQ takes for an interface is resolved and tried again.
Status bind_socket(zmq::socket_t& socket, const std::string& endpoint) {
  PACELINE_RETURN_IF_ERROR(check_ipc_path(endpoint));
  socket.set(zmq::sockopt::ipv6, host_and_port_of_tcp(endpoint).brackets);
  if (zmq_bind(socket.handle(), endpoint.c_str()) == 0) return Status::ok();
  if (zmq_errno() != ENODEV) return refused("cannot bind", endpoint, zmq_errno());
  Result<std::string> resolved = resolve(endpoint);
  if (!resolved) return Status(resolved.status()).with_context("cannot bind " + endpoint);
  socket.set(zmq::sockopt::ipv6, host_and_port_of_tcp(*resolved).brackets);
  if (zmq_bind(socket.handle(), resolved->c_str()) == 0) return Status::ok();
  return refused("cannot bind", endpoint + " (" + *resolved + ")", zmq_errno());
}

}  // namespace

Result<std::unique_ptr<RouterSocket>> RouterSocket::bind(Context& context, boost::asio::io_context& io,
                                                         const std::string& endpoint,
                                                         TransportOptions options, Handler handler) {
  try {
    auto pump = std::make_shared<Pump>(context, io, zmq::socket_type::router, options, std::move(handler));
    PACELINE_RETURN_IF_ERROR(bind_socket(pump->socket(), endpoint));
    pump->start();
    return std::unique_ptr<RouterSocket>(std::make_unique<ZmqRouter>(std::move(pump)));
  } catch (const zmq::error_t& error) {
    return internal_error("cannot open " + endpoint + ": " + error.what());
  }
}

Result<std::unique_ptr<DealerSocket>> DealerSocket::connect(Context& context, boost::asio::io_context& io,
                                                            const std::string& endpoint,
                                                            TransportOptions options, Handler handler) {
  try {
    auto deliver = [handler = std::move(handler)](const PeerId&, Result<Message> message) {
      handler(std::move(message));
    };
    auto pump = std::make_shared<Pump>(context, io, zmq::socket_type::dealer, options, std::move(deliver));
    pump->watch_handshakes(options);
    pump->socket().set(zmq::sockopt::ipv6, needs_ipv6(endpoint));
    if (zmq_connect(pump->socket().handle(), endpoint.c_str()) != 0) {
      return refused("cannot connect to", endpoint, zmq_errno());
    }
    pump->start(options.memory, options.their_memory_bytes_max);
    return std::unique_ptr<DealerSocket>(std::make_unique<ZmqDealer>(std::move(pump)));
  } catch (const zmq::error_t& error) {
    return internal_error("cannot open " + endpoint + ": " + error.what());
  }
}

}  // namespace paceline::wire
