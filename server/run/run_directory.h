// The run directory, before anything is written into it: a run never mixes its files with another's.
#pragma once

#include <filesystem>

#include "common/config/run_config.h"
#include "common/files/file_lock.h"
#include "common/ids.h"
#include "common/status.h"

namespace paceline::server {

// What to do with a folder that already holds a run.
enum class Existing {
  kRefuse,
  kReplace,          // --force: unless that run ended well
  kReplaceFinished,  // --force twice
  kContinue
};

// Makes config.run.out this process's as far as this shard goes, then what prepare_run_directory() does;
// nothing more for a run that is continued. Two servers of one shard would write the same files, and
// listening does not keep them apart where they were given different endpoints. The lock is on the log, and
// held while it, or a copy of it, lives. Errors: kFailedPrecondition another server of this shard is alive
// there, which
// neither --force nor --resume changes; those of prepare_run_directory().
Result<FileLock> take_run_directory(const RunConfig& config, ShardId shard, Existing existing,
                                    const std::filesystem::path& given_config);

// Makes config.run.out, refuses or clears what an earlier run left there, and (the authority) writes the
// effective configuration as config.yaml, with the whole paths of its data and its keys, unless that is
// `given_config` itself. Another shard's files of an earlier run's checkpoints stay until the authority says
// that a run begins (ShardCheckpoints::forget_all()): that run may be gone on with, and this server started
// by mistake. Errors: kFailedPrecondition it holds a run (say --force), or one that ended well (say it twice);
// kUnavailable it cannot be made or written.
[[nodiscard]] Status prepare_run_directory(const RunConfig& config, ShardId shard, Existing existing,
                                           const std::filesystem::path& given_config);

// At the authority of a run that goes on: config.yaml says when the run is to end now and where its daemons meet,
// where that has changed: a node that comes back is started with it.
// Errors: kUnavailable it cannot be written.
[[nodiscard]] Status record_resumed(const RunConfig& config);

// Whether the folder holds no run that this server would be refused for. Errors: kFailedPrecondition it does.
[[nodiscard]] Status check_unused(const RunConfig& config, ShardId shard);

// A server that never listened has not run: takes back the files that prepare_run_directory() and the log made, so that
// the folder does not count as used and a start of the corrected configuration is not refused. The folder stays:
// another daemon that starts may be about to open its log there, and it may be a link, or one that was made for the
// run.
void forget_run(const RunConfig& config, ShardId shard, const std::filesystem::path& given_config);

// server.log; server-<k>.log for the other shards.
std::filesystem::path log_file(const RunConfig& config, ShardId shard);

}  // namespace paceline::server
