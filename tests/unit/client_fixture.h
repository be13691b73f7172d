// A node's client between two scripted servers, over real sockets.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>

#include "tests/unit/scripted_server.h"
#include "tests/unit/temp_folder.h"
#include "worker/client/ps_client.h"

namespace paceline::testing {

inline const Range kLeft{0, 3};
inline const Range kRight{3, 5};

// What does not want the parameters as they come.
struct NoLanding : ParameterSink {
  bool land(ShardId, const cache::SliceStamp&, const SlicePiece&) override { return false; }
};

// Two servers, a layout of five floats, frames of two floats.
struct ClientFixture {
  TempFolder folder;
  wire::Context context;
  Layout layout;
  ProcessCache cache{{kLeft, kRight}};
  PsClientOptions options;
  std::unique_ptr<ScriptedServer> left;
  std::unique_ptr<ScriptedServer> right;
  std::unique_ptr<PsClient> client;
  NoLanding landing;

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
};

}  // namespace paceline::testing
