// `paceline doctor CONFIG [key.path=value …] [--node I | --shard K [--replica R]] [--exchange ROUNDS]`: whether this
// machine can do its part of a run, before any daemon starts: one line for each thing that was looked at, and what to
// do about what is wrong. Looks with the daemons' own code (configuration, endpoints, data set, run directory, memory)
// and leaves nothing behind, but for the run that measures what an exchange costs (--exchange).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/config/command_line.h"
#include "common/ids.h"
#include "common/status.h"

namespace CLI {
class App;
}

namespace paceline {

enum class CheckVerdict { kOk, kWarning, kFailed };

// What one check has found.
struct Finding {
  std::string check;  // "endpoint 0", "data", "memory"
  CheckVerdict verdict = CheckVerdict::kOk;
  std::string detail;  // one line
  std::string advice;  // what to do about it; empty where nothing need be done
};

struct DoctorOptions {
  std::string config_path = {};
  std::vector<std::string> overrides = {};
  std::optional<std::uint32_t> node = {};   // what this machine is to be: this node, or
  std::optional<std::uint32_t> shard = {};  // this server; neither: all of them
  std::uint32_t replica = 0;                // which of the shard's (cluster.replicas)
  Force force = Force::kNo;                 // the daemons will be started with --force
  bool json = false;
  // So many rounds of a run are made, to measure what an exchange costs; none: nothing is measured. And where the
  // daemons' programs are.
  std::optional<std::int64_t> exchange_rounds = {};
  std::string programs = {};
};

// What this machine is to be of a run.
struct DoctorRole {
  std::vector<NodeId> nodes;
  std::vector<ShardId> shards;
  std::vector<std::uint32_t> replicas;  // of each of them

  bool is_whole_run() const { return !nodes.empty() && !shards.empty(); }
};

// All checks, in order. Errors: those of load_daemon_config(); then nothing was looked at.
Result<std::vector<Finding>> diagnose(const DoctorOptions& options);

// The findings to `out`, as lines or (json) as one object, and 0, or 1 when something has failed; or the
// configuration's error as one line to `err` and 2.
int doctor(const DoctorOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_doctor(CLI::App& app, int& exit_status);

}  // namespace paceline
