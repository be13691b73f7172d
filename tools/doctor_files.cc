// What lies on disks: the data set, and the run directory with its file system.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "common/config/engine_config.h"
#include "common/config/planned.h"
#include "common/instant.h"
#include "common/params/shard_ranges.h"
#include "common/report/run_summary.h"
#include "common/wire/keys.h"
#include "server/run/run_directory.h"
#include "server/store/memory_bound.h"
#include "tools/doctor_checks.h"
#include "worker/network_task.h"
#include "worker/node_log.h"
#include "worker/run_data.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// The folder itself, or the nearest one above it that is there.
fs::path existing_part(const fs::path& folder) {
  std::error_code error;
  fs::path part = fs::absolute(folder, error);
  while (!fs::exists(part, error) && part.has_relative_path()) part = part.parent_path();
  return part;
}

// What came of making, and removing, a file: when this machine thinks that was, and the file system.
struct Probe {
  Status made;
  std::chrono::nanoseconds skew{0};  // of the file system's clock before ours, at least this
};

std::chrono::nanoseconds wall_clock() { return std::chrono::system_clock::now().time_since_epoch(); }

Probe probe(const fs::path& folder) {
  std::string name = (folder / ".paceline-doctor-XXXXXX").string();
  const auto before = wall_clock();
  const int file = ::mkstemp(name.data());
  const auto why = [&] {
    return unavailable("cannot write into " + folder.string() + ": " +
                       std::generic_category().message(errno));
  };
  if (file < 0) return {why(), {}};
  Probe result{::write(file, "x", 1) == 1 ? Status::ok() : why(), {}};
  struct stat about = {};
  const bool known = ::fstat(file, &about) == 0;
  const auto after = wall_clock();
  ::close(file);
  ::unlink(name.c_str());
  if (!known) return result;
  const auto changed =
      std::chrono::seconds(about.st_mtim.tv_sec) + std::chrono::nanoseconds(about.st_mtim.tv_nsec);
  if (changed > after) result.skew = changed - after;
  // Times of files are as old as the last tick of a clock, which is 10 ms at most.
  constexpr std::chrono::milliseconds kTickOfFiles{20};
  if (changed + kTickOfFiles < before) result.skew = changed - before;
  return result;
}

std::string in_megabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", std::ceil(bytes / 1e6));
  return text;
}

constexpr double kLogBytes = 4e6;       // of one daemon: a line here and there
constexpr double kCurveRowBytes = 100;  // of one evaluation, or window
constexpr double kEventBytes = 200;     // of such a row, under run.tensorboard
constexpr double kPhasesBytes = 2e3;    // of one worker

// With one more than is kept while it is written.
double checkpoint_bytes(const RunConfig& config, const DoctorRole& role) {
  const auto layout = network_layout(config);
  const bool saves = config.checkpoint.enabled() || config.run.max_seconds;
  if (!saves || !layout.is_ok() || config.data.path.empty()) return 0.0;
  const std::vector<Range> ranges = shard_ranges(*layout, config.train.optimizer, config.cluster.shards);
  double bytes = 0.0;
  for (const ShardId shard : role.shards) {
    bytes += server::image_bytes(ranges[shard.value].size(), config);
  }
  return bytes * static_cast<double>(config.checkpoint.keep + config.checkpoint.keep_best + 1);
}

// What the daemons of `role` will write there.
double bytes_to_write(const RunConfig& config, const DoctorRole& role) {
  double bytes = kLogBytes * static_cast<double>(role.nodes.size() + role.shards.size());
  bytes += checkpoint_bytes(config, role);
  if (role.shards.empty() || role.shards.front() != kAuthority) return bytes;
  // A task of one's own has a model that nobody knows here.
  const auto layout = network_layout(config);
  if (layout.is_ok() && !config.data.path.empty())
    bytes += static_cast<double>(layout->size()) * sizeof(float);
  const auto versions = static_cast<double>(planned_versions(config));
  const auto window = static_cast<double>(sync::window_clocks_of(engine_config(config)));
  double rows = versions / window + 1;
  if (config.train.eval_every_clocks) rows += versions / static_cast<double>(*config.train.eval_every_clocks);
  const double row_bytes = kCurveRowBytes + (config.run.tensorboard ? kEventBytes : 0.0);
  return bytes + rows * row_bytes + kPhasesBytes * config.cluster.cluster().workers();
}

Finding room(const RunConfig& config, const DoctorRole& role, const fs::path& folder) {
  struct statvfs about = {};
  if (::statvfs(folder.c_str(), &about) != 0) {
    return {"disk space", CheckVerdict::kWarning,
            "the file system of " + folder.string() + " does not say how much room it has", ""};
  }
  const double needed = bytes_to_write(config, role);
  const double free = static_cast<double>(about.f_bavail) * static_cast<double>(about.f_frsize);
  const std::string detail = in_megabytes(free) + " free at " + folder.string() + ", about " +
                             in_megabytes(needed) + " needed for model, curve, logs and checkpoints";
  if (free >= needed) return {"disk space", CheckVerdict::kOk, detail, ""};
  return {"disk space", CheckVerdict::kFailed, detail, "make room, or choose another run.out"};
}

}  // namespace

void check_data_set(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const auto found = [&](CheckVerdict verdict, std::string detail, std::string advice) {
    findings.push_back({"data", verdict, std::move(detail), std::move(advice)});
  };
  if (role.nodes.empty()) return found(CheckVerdict::kOk, "not looked at: a server reads none", "");
  const std::string& path = config.data.path;
  if (path.empty()) {
    return found(CheckVerdict::kWarning, "no data.path: only a task of your own can train",
                 "paceline-worker needs data.path=FOLDER");
  }
  // As a node opens it, but for what would be the run's: memory that keeps files, an index in its directory.
  RunConfig read_only = config;
  read_only.data.cache = 0;
  read_only.run.out.clear();
  const auto data = RunData::open(read_only, RunFolder::kAsItIs);
  if (!data.is_ok()) return found(CheckVerdict::kFailed, data.status().message(), "");
  const auto test = data->test();
  if (!test.is_ok()) return found(CheckVerdict::kFailed, test.status().message(), "");
  const std::int64_t left_out = data->samples_left_out();
  char mark[32];
  std::snprintf(mark, sizeof mark, "0x%016" PRIx64, data->fingerprint());
  found(left_out == 0 ? CheckVerdict::kOk : CheckVerdict::kWarning,
        path + ": " + std::to_string(data->train()->size()) + " training and " +
            std::to_string((*test)->size()) + " test samples; fingerprint " + mark +
            ", which all nodes must have",
        left_out == 0 ? "" : std::to_string(left_out) + " pictures cannot be read, and are left out");
}

void check_keys(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const std::string& folder = config.security.keys;
  const auto found = [&](CheckVerdict verdict, std::string detail, std::string advice) {
    findings.push_back({"keys", verdict, std::move(detail), std::move(advice)});
  };
  if (folder.empty() && config.security.allow_insecure) {
    return found(CheckVerdict::kWarning,
                 "none, and security.allow_insecure: whoever reaches an endpoint may take part",
                 "make keys with paceline keygen");
  }
  if (folder.empty())
    return found(CheckVerdict::kOk, "none: no endpoint is reached from another machine", "");
  Status read;
  for (const ShardId shard : role.shards) {
    if (read.is_ok()) read = wire::read_server_keys(folder, config.cluster.nodes).status();
    if (read.is_ok() && shard != kAuthority) read = wire::read_shard_keys(folder).status();
  }
  for (const NodeId node : role.nodes) {
    if (read.is_ok()) read = wire::read_node_keys(folder, node.value).status();
  }
  if (!read.is_ok()) return found(CheckVerdict::kFailed, read.message(), "");
  found(CheckVerdict::kOk, folder + ": those of this machine's daemons are there, and nobody else's to read",
        "");
}

void check_run_directory(const RunConfig& config, const DoctorRole& role, Force force, Findings& findings) {
  const fs::path out(config.run.out);
  const fs::path folder = existing_part(out);
  const auto found = [&](CheckVerdict verdict, std::string detail, std::string advice) {
    findings.push_back({"run directory", verdict, std::move(detail), std::move(advice)});
  };
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return found(CheckVerdict::kFailed,
                 out.string() + " cannot be made: " + folder.string() + " is not a folder",
                 "choose another run.out");
  }
  const Probe probed = probe(folder);
  if (!probed.made.is_ok()) {
    return found(CheckVerdict::kFailed, probed.made.message(),
                 "choose another run.out, or get the permission to write there");
  }
  Status unused;
  for (const ShardId shard : role.shards) {
    if (unused.is_ok()) unused = server::check_unused(config, shard);
  }
  for (const NodeId node : role.nodes) {
    if (unused.is_ok()) unused = check_unused(config, node);
  }
  const Status kept = force == Force::kOnce ? check_replaceable(out) : Status::ok();
  if (!unused.is_ok() && (force == Force::kNo || !kept.is_ok())) {
    found(CheckVerdict::kFailed, force == Force::kNo ? unused.message() : kept.message(), "");
  } else {
    const bool there = fs::exists(out, error);
    found(CheckVerdict::kOk,
          out.string() + (!unused.is_ok() ? " holds a run, which will be replaced"
                          : there         ? " can be written, and holds no run"
                                          : " is not there yet, and can be made"),
          "");
  }
  findings.push_back(room(config, role, folder));
  findings.push_back(compare_clocks(config, role, folder.string(), probed.skew));
}

}  // namespace paceline
