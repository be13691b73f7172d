// ServerSetup: what a server was started with, which never changes. Every part of its loop reads it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/config/load.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/log/log.h"
#include "server/checkpoint/folder.h"
#include "server/server.h"

namespace paceline::server {

struct ServerSetup {
  // `server_log` outlives this.
  ServerSetup(const RunConfig& run, ShardId which, const Log& server_log, ServerOptions given)
      : config(run),
        shard(which),
        log(server_log),
        options(std::move(given)),
        fingerprint(paceline::fingerprint(run)),
        run_fingerprint(paceline::fingerprint(run, AgreedBy::kRun)) {}

  const RunConfig config;
  const ShardId shard;
  const Log& log;
  const ServerOptions options;
  const std::uint64_t fingerprint;      // of the session
  const std::uint64_t run_fingerprint;  // of the run: what its checkpoints have

  bool is_authority() const { return shard == kAuthority; }
  std::string name() const { return "shard " + to_string(shard); }
  std::string endpoint() const { return config.cluster.endpoints_of(shard.value).at(options.replica); }
  // Of the shard's other replica, where it has one.
  std::string other_endpoint() const {
    return config.cluster.endpoints_of(shard.value).at(1 - options.replica);
  }
  CheckpointFolder checkpoints() const { return {config.run.out, run_fingerprint}; }
};

}  // namespace paceline::server
