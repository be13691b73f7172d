// Refusing, clearing and making the run directory.
#include "server/run/run_directory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/report/run_summary.h"
#include "common/report/tensorboard.h"
#include "server/authority/results.h"
#include "server/checkpoint/folder.h"

namespace paceline::server {
namespace {

namespace fs = std::filesystem;

// What may be said instead, and to paceline.launch.
constexpr const char* kForce = "--force (--existing replace)";
constexpr const char* kForceTwice = "--force --force (before paceline.launch: remove it)";
constexpr const char* kResume = "--resume (--existing continue)";

// What says that a run was here. Another shard starts beside the authority and knows only its own log.
std::vector<fs::path> marks_of_a_run(const RunConfig& config, ShardId shard) {
  if (shard != kAuthority) return {log_file(config, shard)};
  const fs::path out(config.run.out);
  return {log_file(config, shard), out / "curve.csv", out / "summary.json"};
}

// The number between the two, in "worker-3.log" or "algorithms-node3.txt"; nothing in any other name.
std::optional<std::uint64_t> number_in(const std::string& name, const std::string& before,
                                       const std::string& after) {
  if (name.size() < before.size() + after.size()) return std::nullopt;
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  const std::string digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool number =
      !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::optional(std::stoull(digits)) : std::nullopt;
}

// The logs of nodes and shards that the new run does not have. Those that it has begin theirs anew, and may
// have done so already.
std::vector<fs::path> logs_of_others(const RunConfig& config) {
  std::vector<fs::path> logs;
  std::error_code error;
  for (fs::directory_iterator it(config.run.out, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (number_in(name, "worker-", ".log").value_or(0) >= config.cluster.nodes ||
        number_in(name, "server-", ".log").value_or(0) >= config.cluster.shards) {
      logs.push_back(it->path());
    }
  }
  return logs;
}

// TensorBoard's, and what nodes have measured for `exchange.algorithm: auto`, which a new run measures anew.
std::vector<fs::path> events_and_measurements(const RunConfig& config) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(config.run.out, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_event_file(name) || number_in(name, "algorithms-node", ".txt")) files.push_back(it->path());
  }
  return files;
}

bool has_checkpoints(const RunConfig& config) {
  std::error_code error;
  return fs::exists(fs::path(config.run.out) / "checkpoint", error);
}

// Its own of whatever checkpoint; the authority's folder may be the same.
bool has_files_of(const RunConfig& config, ShardId shard) {
  std::error_code error;
  for (fs::directory_iterator it(fs::path(config.run.out) / "checkpoint", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unreadable;
    if (fs::exists(it->path() / ("shard-" + to_string(shard)), unreadable)) return true;
  }
  return false;
}

// Whether nothing would be lost with it. A model beside it is what the run has begun with, unless a warm start
// had learned before the first version (worker/train/warm_start.h). A run that goes on from a checkpoint may
// train nothing itself.
bool left_nothing(const RunConfig& config) {
  if (!trained_nothing(config.run.out) || has_checkpoints(config)) return false;
  const fs::path out(config.run.out);
  std::error_code error;
  if (!fs::exists(out / "model.bin", error)) return true;
  const auto recorded = load_config((out / "config.yaml").string(), {}, LoadFor::kReading);
  return recorded.is_ok() && recorded->train.warm_start_steps == 0;
}

// What would contradict the new run if it stayed, but for the log, which may be locked; scripts/lib/runs.sh
// (run_files) knows the same.
std::vector<fs::path> leftovers(const RunConfig& config, ShardId shard) {
  if (shard != kAuthority) return {};
  std::vector<fs::path> files = marks_of_a_run(config, shard);
  std::erase(files, log_file(config, shard));
  files.push_back(fs::path(config.run.out) / "curve.csv.broken");
  for (const fs::path& log : logs_of_others(config)) files.push_back(log);
  for (const fs::path& file : events_and_measurements(config)) files.push_back(file);
  if (const auto parts = parts_of_traces(config.run.out); parts.is_ok()) {
    files.insert(files.end(), parts->begin(), parts->end());
  }
  for (const char* name : kResults) files.push_back(fs::path(config.run.out) / name);
  if (const auto unfinished = unfinished_results(config.run.out); unfinished.is_ok()) {
    files.insert(files.end(), unfinished->begin(), unfinished->end());
  }
  return files;
}

// Another shard's log, too, is a part of the run that ended well.
Status check_may_begin(const RunConfig& config, ShardId shard, Existing existing) {
  if (existing == Existing::kRefuse) return check_unused(config, shard);
  return existing == Existing::kReplace ? check_replaceable(config.run.out) : Status::ok();
}

// `paceline evaluate` may be called, the run repeated, from another folder.
Status write_config(const fs::path& effective, RunConfig config) {
  std::error_code error;
  for (std::string* const path :
       {&config.data.path, &config.security.keys, &config.train.init_from, &config.exchange.measured}) {
    if (!path->empty()) *path = fs::absolute(*path, error).string();
  }
  return write_file_atomically(effective, to_yaml(config));
}

}  // namespace

fs::path log_file(const RunConfig& config, ShardId shard) {
  return fs::path(config.run.out) /
         (shard == kAuthority ? "server.log" : "server-" + to_string(shard) + ".log");
}

Status check_unused(const RunConfig& config, ShardId shard) {
  std::error_code error;
  const bool replaces_nothing = shard == kAuthority && left_nothing(config);
  for (const fs::path& mark : marks_of_a_run(config, shard)) {
    if (replaces_nothing || !fs::exists(mark, error)) continue;
    const bool is_whole = ended_well(config.run.out);
    return failed_precondition(
        "the run directory " + config.run.out + " already holds a run" +
        (is_whole ? " that has ended well (" : " (") + mark.filename().string() +
        "); choose another run.out, or replace it with " + (is_whole ? kForceTwice : kForce) +
        (has_checkpoints(config) ? std::string(", or go on with it with ") + kResume : ""));
  }
  if (shard == kAuthority ? has_checkpoints(config) : has_files_of(config, shard)) {
    return failed_precondition("the run directory " + config.run.out +
                               " already holds a run's checkpoints (checkpoint); choose another run.out, "
                               "replace them with " +
                               kForce + ", or go on with that run with " + kResume);
  }
  return Status::ok();
}

Result<FileLock> take_run_directory(const RunConfig& config, ShardId shard, Existing existing,
                                    const fs::path& given_config) {
  // Before the lock, which makes a log.
  PACELINE_RETURN_IF_ERROR(check_may_begin(config, shard, existing));
  std::error_code error;
  fs::create_directories(config.run.out, error);
  if (error) return unavailable("cannot make the run directory " + config.run.out + ": " + error.message());
  const fs::path log = log_file(config, shard);
  Result<FileLock> lock = lock_file(log);
  if (lock.status().code() == StatusCode::kFailedPrecondition) {
    return failed_precondition("the run directory " + config.run.out +
                               " is that of another server of shard " + to_string(shard) +
                               ", which is still alive (" + log.filename().string() +
                               " is locked); end it first, or choose another run.out");
  }
  PACELINE_RETURN_IF_ERROR(lock.status());
  if (!lock->warning.empty()) {
    lock->warning += "; another server of this shard in this run directory would not be noticed";
  }
  if (existing == Existing::kContinue) return lock;
  PACELINE_RETURN_IF_ERROR(prepare_run_directory(config, shard, Existing::kReplaceFinished, given_config));
  return lock;
}

Status prepare_run_directory(const RunConfig& config, ShardId shard, Existing existing,
                             const fs::path& given_config) {
  const fs::path out(config.run.out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error) return unavailable("cannot make the run directory " + out.string() + ": " + error.message());
  PACELINE_RETURN_IF_ERROR(check_may_begin(config, shard, existing));
  for (const fs::path& file : leftovers(config, shard)) {
    fs::remove(file, error);
    if (error) return unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  const fs::path log = log_file(config, shard);
  if (fs::exists(log, error)) fs::resize_file(log, 0, error);
  if (error) return unavailable("cannot empty " + log.string() + ": " + error.message());
  if (shard != kAuthority) return Status::ok();
  PACELINE_RETURN_IF_ERROR(CheckpointFolder(config.run.out, fingerprint(config, AgreedBy::kRun)).clear());
  const fs::path effective = out / "config.yaml";
  if (fs::exists(effective, error) && fs::equivalent(effective, given_config, error)) return Status::ok();
  return write_config(effective, config);
}

Status record_resumed(const RunConfig& config) {
  const fs::path effective = fs::path(config.run.out) / "config.yaml";
  const auto recorded = load_config(effective.string(), {}, LoadFor::kReading);
  if (recorded.is_ok() && fingerprint(*recorded) == fingerprint(config) &&
      recorded->cluster.endpoints == config.cluster.endpoints) {
    return Status::ok();
  }
  // What else is one daemon's own affair stays as the run was recorded with.
  const auto changed = load_config(effective.string(), resumable_settings(config), LoadFor::kReading);
  // Of other data.train_samples the epochs of the record may come to other versions than the run goes on with.
  const bool is_same_run =
      changed.is_ok() && fingerprint(*changed, AgreedBy::kRun) == fingerprint(config, AgreedBy::kRun);
  RunConfig now = is_same_run ? *changed : config;
  now.cluster.endpoints = config.cluster.endpoints;
  return write_config(effective, now);
}

void forget_run(const RunConfig& config, ShardId shard, const fs::path& given_config) {
  std::error_code ignored;  // what cannot be removed is what an earlier run may leave, too
  const fs::path effective = fs::path(config.run.out) / "config.yaml";
  if (shard == kAuthority && !fs::equivalent(effective, given_config, ignored))
    fs::remove(effective, ignored);
  // The log is the last: while it is there and locked no other server of this shard begins here.
  std::vector<fs::path> marks = marks_of_a_run(config, shard);
  std::reverse(marks.begin(), marks.end());
  for (const fs::path& mark : marks) fs::remove(mark, ignored);
}

}  // namespace paceline::server
