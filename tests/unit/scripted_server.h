// A server that does only what the test tells it to: a router on a thread of its own, every message that
// comes in kept in order, every answer given by the test.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/assert.h"
#include "common/wire/shared_memory.h"
#include "common/wire/transport.h"

namespace paceline::testing {

class ScriptedServer {
 public:
  // `memory`: shared with whoever joins; null: nothing is.
  ScriptedServer(wire::Context& context, const std::string& endpoint,
                 std::shared_ptr<wire::SharedSegment> memory = nullptr)
      : memory_(std::move(memory)) {
    std::promise<void> bound;
    thread_ = std::thread([&] {
      const auto bind = [&] {
        return wire::RouterSocket::bind(context, io_, endpoint, {},
                                        [this](const wire::PeerId& from, Result<wire::Message> message) {
                                          receive(from, std::move(message));
                                        });
      };
      // The one before it at this endpoint may still be closing.
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      auto socket = bind();
      while (!socket.is_ok() && std::chrono::steady_clock::now() < deadline) socket = bind();
      PACELINE_ASSERT(socket.is_ok(), socket.status().message());
      socket_ = std::move(socket).value();
      bound.set_value();
      const auto until_stopped = boost::asio::make_work_guard(io_);
      io_.run();
      socket_.reset();
    });
    bound.get_future().wait();
  }
  ~ScriptedServer() {
    boost::asio::post(io_, [this] {
      socket_->close();
      io_.stop();
    });
    thread_.join();
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // The next message of this kind, others than it thrown away; nullopt when none comes within 20 s.
  template <typename Body>
  std::optional<Body> expect() {
    return expect<Body>([](const wire::Body&) { return true; });
  }
  // The next one of this kind for which that holds.
  template <typename Body, typename Holds>
  std::optional<Body> expect_that(Holds holds) {
    for (;;) {
      std::optional<Body> next = expect<Body>();
      if (!next || holds(*next)) return next;
    }
  }
  // The same, but nothing may come before it except heartbeats, and goodbyes over another connection; nullopt
  // when something does.
  template <typename Body>
  std::optional<Body> expect_next() {
    return expect<Body>([](const wire::Body& other) {
      return std::holds_alternative<wire::Heartbeat>(other) || std::holds_alternative<wire::Leave>(other);
    });
  }
  // How many messages have come besides heartbeats; several said together are one.
  std::int64_t messages_received() {
    std::promise<std::int64_t> received;
    boost::asio::post(io_, [&] { received.set_value(socket_->counters().messages_received - heartbeats_); });
    return received.get_future().get();
  }
  // Of the message that expect() gave last.
  const wire::Payload& payload() const { return payload_; }

  // Breaks the connection of whoever said what expect() gave last, as a network may; what else came over it
  // is thrown away.
  void break_connection() {
    std::promise<void> broken;
    boost::asio::post(io_, [&] {
      (void)socket_->disconnect(answers_);
      broken.set_value();
    });
    broken.get_future().wait();
    const std::lock_guard lock(mutex_);
    std::erase_if(messages_, [&](const Said& reported) { return reported.from == answers_; });
  }

  // To whoever said what expect() gave last.
  void send(wire::Body body, wire::Payload payload = {}) {
    boost::asio::post(io_, [this, to = answers_, body = std::move(body), payload = std::move(payload)] {
      (void)socket_->send(to, {body, payload});
    });
  }

 private:
  struct Said {
    wire::PeerId from;
    wire::Message message;
  };
  template <typename Body, typename MayComeBefore>
  std::optional<Body> expect(MayComeBefore may_come_before) {
    std::unique_lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
      if (!arrived_.wait_until(lock, deadline, [&] { return !messages_.empty(); })) return std::nullopt;
      Said reported = std::move(messages_.front());
      messages_.pop_front();
      if (Body* const body = std::get_if<Body>(&reported.message.body)) {
        payload_ = reported.message.payload;
        answers_ = std::move(reported.from);
        return *body;
      }
      if (!may_come_before(reported.message.body)) return std::nullopt;
    }
  }
  void receive(const wire::PeerId& from, Result<wire::Message> message) {
    socket_->remember(from);  // so that its connection can be broken
    if (memory_ != nullptr && message.is_ok() && std::holds_alternative<wire::Join>(message->body)) {
      (void)socket_->share_memory(from, memory_, std::int64_t{1} << 30);
    }
    if (message.is_ok() && std::holds_alternative<wire::Heartbeat>(message->body)) ++heartbeats_;
    std::lock_guard lock(mutex_);
    if (message.is_ok()) messages_.push_back({from, std::move(message).value()});
    arrived_.notify_all();
  }

  const std::shared_ptr<wire::SharedSegment> memory_;
  boost::asio::io_context io_;
  std::unique_ptr<wire::RouterSocket> socket_;
  std::int64_t heartbeats_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Said> messages_;
  wire::PeerId answers_;
  wire::Payload payload_;
};

}  // namespace paceline::testing
