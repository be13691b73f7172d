// A node's client between two scripted servers, over real sockets.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>

#include "tests/unit/scripted_server.h"
#include "tests/unit/temp_folder.h"
#include "worker/client/ps_client.h"

namespace paceline::testing {

inline const Range kLeft{0, 3};
inline const Range kRight{3, 5};

// What does not want the parameters as they come.
struct NoSink : ParameterSink {
  bool copy_in(ShardId, const cache::SliceStamp&, const SlicePiece&) override { return false; }
};

// Time that passes for a client only where a test says so. Thread: any.
class SetTime {
 public:
  // To be called before the client is made.
  void use(PsClientOptions& options) {
    options.cluster.heartbeat = std::chrono::milliseconds(1);
    options.clock = [this] {
      const std::lock_guard lock(mutex_);
      return now_;
    };
    options.heartbeat = [this] {
      const std::lock_guard lock(mutex_);
      ++beats_;
      changed_.notify_all();
      return wire::Heartbeat();
    };
    options.on_closed = [this] {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    };
  }
  // At once: longer than ClientWaits::kPauseAtLeast, it is as if the process had stood still.
  void jump(std::chrono::nanoseconds time) {
    const std::lock_guard lock(mutex_);
    now_ = now_ + time;
  }
  // In small steps, at each of which the client looks who is silent; until that has closed it.
  void pass(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    for (const auto until = now_ + time; now_ < until && !closed_;) {
      now_ = std::min(now_ + kStep, until);
      // One beat may have begun before.
      const auto has_checked = [this, beats = beats_ + 2] { return closed_ || beats_ >= beats; };
      REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), has_checked));
    }
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  static constexpr std::chrono::nanoseconds kStep = std::chrono::milliseconds(250);
  std::mutex mutex_;
  std::condition_variable changed_;
  Ticks now_{1};
  std::int64_t beats_ = 0;
  bool closed_ = false;
};

// Two servers, a layout of five floats, frames of two floats.
struct ClientFixture {
  TempFolder folder;
  SetTime time;  // once it is used
  wire::Context context;
  Layout layout;
  ProcessCache cache{{kLeft, kRight}};
  PsClientOptions options;
  std::unique_ptr<ScriptedServer> left;
  std::unique_ptr<ScriptedServer> right;
  std::unique_ptr<PsClient> client;
  NoSink sink;

  ClientFixture() {
    REQUIRE(layout.add("w", {5}).is_ok());
    options.cluster.shards = 2;
    options.cluster.endpoints = {"ipc://" + (folder / "0").string(), "ipc://" + (folder / "1").string()};
    options.cluster.frame_bytes = 8;
    options.cluster.heartbeat = std::chrono::milliseconds(10);
    options.cluster.lease = std::chrono::seconds(20);
    options.cluster.start_timeout = std::chrono::seconds(20);
    options.incarnation = 77;
    options.config_fingerprint = 99;
  }
  void start_servers() {
    left = std::make_unique<ScriptedServer>(context, options.cluster.endpoints[0]);
    right = std::make_unique<ScriptedServer>(context, options.cluster.endpoints[1]);
  }
  std::future<Status> start_client() {
    client = std::make_unique<PsClient>(options, layout, context, cache);
    return std::async(std::launch::async, [this] { return client->start(); });
  }
  // Both servers, joined and welcomed.
  void join() {
    start_servers();
    auto started = start_client();
    REQUIRE(left->expect<wire::Join>());
    left->send(wire::Welcome{ShardId(0), kLeft});
    REQUIRE(right->expect<wire::Join>());
    right->send(wire::Welcome{ShardId(1), kRight});
    const Status status = started.get();
    INFO(status.message());
    REQUIRE(status.is_ok());
  }
  // The client has heard this server, and all that it said before.
  bool is_received(ScriptedServer& server) {
    const wire::Heartbeat asks{.answer = ++asked_};
    server.send(asks);
    return server
        .expect_that<wire::Heartbeat>([&](const wire::Heartbeat& beat) { return beat.answer == asks.answer; })
        .has_value();
  }

 private:
  std::uint64_t asked_ = 0;
};

// Both servers have welcomed the node.
struct JoinedClient : ClientFixture {
  JoinedClient() { join(); }
};

}  // namespace paceline::testing
