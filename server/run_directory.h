// The run directory, before anything is written into it: a run never mixes its files with another's.
#pragma once

#include <filesystem>
#include <string>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"

namespace paceline::server {

// What to do with a folder that already holds a run.
enum class Existing { kRefuse, kReplace };

// Makes config.run.out, refuses or clears what an earlier run left there, and (the authority) writes the
// effective configuration as config.yaml, with the whole paths of its data and its keys, unless that is
// `given_config` itself. Errors: kFailedPrecondition it holds a run (say --force); kUnavailable it cannot be
// made or written.
[[nodiscard]] Status prepare_run_directory(const RunConfig& config, ShardId shard, Existing existing,
                                           const std::filesystem::path& given_config);

// The run goes on that the folder holds: what an end of it said is no longer so. Its log, curve and
// checkpoints stay. Errors: kUnavailable a file cannot be removed.
[[nodiscard]] Status forget_results(const RunConfig& config);

// Whether the folder holds no run that this server would be refused for. Errors: kFailedPrecondition it does.
[[nodiscard]] Status check_unused(const RunConfig& config, ShardId shard);

// A server that never listened has not run: takes back what prepare_run_directory() and the log made, so that
// the folder does not count as used and a start of the corrected configuration is not refused.
void forget_run(const RunConfig& config, ShardId shard, const std::filesystem::path& given_config);

// server.log; server-<k>.log for the other shards.
std::filesystem::path log_file(const RunConfig& config, ShardId shard);

}  // namespace paceline::server
