// A node that says what a test tells it to: one DealerSocket to each server, and everything it was sent. And
// a server on a thread of its own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/params/layout.h"
#include "common/wire/transport.h"
#include "server/server.h"

namespace paceline::server {

class RunningServer {
 public:
  RunningServer(const RunConfig& config, ShardId shard, wire::Context& context, Log log = Log(),
                ServerOptions options = {})
      : server_(config, shard, context, std::move(log), options),
        started_(server_.start()),
        leaves_(shard != kAuthority) {
    if (started_.is_ok()) thread_ = std::thread([this] { result_ = server_.run(); });
  }
  ~RunningServer() {
    if (!thread_.joinable()) return;
    leaves_ ? server_.leave("the test is over") : server_.request_stop("the test is over");
    thread_.join();
  }
  const Status& started() const { return started_; }
  std::string endpoint() const { return server_.endpoint(); }
  // Waits until the run is over.
  const Status& result() {
    thread_.join();
    return result_;
  }
  Server& server() { return server_; }

 private:
  Server server_;
  Status started_;
  bool leaves_;
  Status result_;
  std::thread thread_;
};

class ScriptedNode {
 public:
  // What is said leaves at once, or, while something is waited for, with what else was said (gathered.h).
  enum class Framing { kSentAtOnce, kSentTogether };

  // `memory`: to share with the servers, of whose it maps segments of up to `their_bytes_max`.
  ScriptedNode(wire::Context& context, const std::vector<std::string>& endpoints,
               const std::shared_ptr<wire::SharedSegment>& memory = nullptr,
               std::int64_t their_bytes_max = std::int64_t{1} << 40, Framing framing = Framing::kSentAtOnce)
      : inbox_(endpoints.size()), heartbeats_(endpoints.size()) {
    wire::TransportOptions options;
    options.memory = memory;
    options.their_memory_bytes_max = their_bytes_max;
    if (framing == Framing::kSentTogether) {
      options.on_unsent = [](const wire::PeerId&, const Status& why) { FAIL_CHECK(why.message()); };
    }
    for (std::size_t k = 0; k < endpoints.size(); ++k) {
      auto socket = wire::DealerSocket::connect(context, io_, endpoints[k], options,
                                                [this, k](Result<wire::Message> m) {
                                                  REQUIRE(m.is_ok());
                                                  if (std::holds_alternative<wire::Heartbeat>(m->body))
                                                    ++heartbeats_[k];
                                                  inbox_[k].push_back(std::move(m).value());
                                                });
      REQUIRE(socket.is_ok());
      sockets_.push_back(std::move(socket).value());
    }
  }

  void send(std::size_t server, wire::Body body, std::vector<float> values = {}) {
    wire::Payload payload;
    auto owner = std::make_shared<const std::vector<float>>(std::move(values));
    payload.data = reinterpret_cast<const std::byte*>(owner->data());
    payload.size = owner->size() * sizeof(float);
    payload.owner = owner;
    REQUIRE(sockets_[server]->send({std::move(body), std::move(payload)}).is_ok());
  }
  void send_to_all(const wire::Body& body) {
    for (std::size_t k = 0; k < sockets_.size(); ++k) send(k, body);
  }

  // The next message of this kind from `server`; others before it are passed over. Fails after 20 s without
  // one, and says what came instead.
  template <typename Body>
  Body receive(std::size_t server, wire::Payload* payload = nullptr) {
    passed_over_.clear();
    std::optional<Body> received = receive_within<Body>(server, std::chrono::seconds(20), payload);
    if (!received)
      FAIL("no " << wire::name_of(Body()) << " from server " << server << ", but:" << passed_over_);
    return *std::move(received);
  }
  // The same; nothing where none comes within that time.
  template <typename Body>
  std::optional<Body> receive_within(std::size_t server, std::chrono::milliseconds time,
                                     wire::Payload* payload = nullptr) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    for (;;) {
      std::vector<wire::Message>& box = inbox_[server];
      while (!box.empty()) {
        wire::Message message = std::move(box.front());
        box.erase(box.begin());
        if (auto* body = std::get_if<Body>(&message.body)) {
          if (payload != nullptr) *payload = message.payload;
          return *body;
        }
        if (std::holds_alternative<wire::Heartbeat>(message.body)) continue;
        passed_over_ += std::string(" ") + wire::name_of(message.body);
        if (const auto* error = std::get_if<wire::Error>(&message.body)) passed_over_ += "=" + error->message;
      }
      if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(20));
    }
  }
  // The name of the next message from `server` that is no heartbeat.
  std::string receive_name(std::size_t server) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      std::vector<wire::Message>& box = inbox_[server];
      while (!box.empty()) {
        const wire::Body body = std::move(box.front().body);
        box.erase(box.begin());
        if (!std::holds_alternative<wire::Heartbeat>(body)) return wire::name_of(body);
      }
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(20));
    }
    return "nothing";
  }

  // How many messages have left for and come from `server`, those besides heartbeats; several that travelled
  // together are one.
  std::int64_t messages_sent(std::size_t server) const { return sockets_[server]->counters().messages_sent; }
  std::int64_t messages_received(std::size_t server) const {
    return sockets_[server]->counters().messages_received - heartbeats_[server];
  }

 private:
  boost::asio::io_context io_;
  std::vector<std::unique_ptr<wire::DealerSocket>> sockets_;
  std::vector<std::vector<wire::Message>> inbox_;
  std::vector<std::int64_t> heartbeats_;
  std::string passed_over_;  // since hear() was called
};

// What worker 0.0 says at the end of an iteration of a run of one worker, computed with version `clock`.
inline wire::StepReport report_at(std::int64_t clock) {
  wire::StepReport report;
  report.worker = WorkerId(0, 0);
  report.clock = Clock(clock);
  report.metric = {1.0, 2, 4};
  report.computed_version = Version(clock);
  report.computed_revision = Revision(clock);
  return report;
}

inline wire::Join join_of(const RunConfig& config, std::uint32_t node, std::int64_t floats) {
  Layout layout;
  REQUIRE(layout.add("w", {floats}).is_ok());
  wire::Join join;
  join.node = NodeId(node);
  join.incarnation = 1000 + node;
  join.threads = config.cluster.threads_per_node;
  join.config_fingerprint = fingerprint(config);
  join.layout_hash = layout.hash();
  join.tensors = layout.tensors();
  return join;
}

}  // namespace paceline::server
