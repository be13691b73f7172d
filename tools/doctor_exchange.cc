// What an exchange of the model costs on this cluster: a short run under bsp, with nothing hidden. The daemons of the
// machine's role are processes, and meet those that doctors of other machines start. One mini-batch is a round, and
// rates are next to nothing, since nobody is to learn anything.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/printed.h"
#include "common/report/phases_csv.h"
#include "sweep/processes.h"
#include "sweep/speedup.h"
#include "tools/doctor_checks.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheck = "exchange";
constexpr double kLearningRate = 1e-9;
constexpr std::chrono::seconds kAtMost{60};
constexpr std::chrono::milliseconds kPollEvery{500};

Status can_be_measured(const RunConfig& config) {
  if (config.exchange.kind != ExchangeKind::kServer) {
    return failed_precondition(
        "exchange.kind: the sums of an all-reduce leave while the rest is computed, so what they "
        "take is in no phase of their own, got allreduce, expected server");
  }
  if (config.pipeline.enabled()) {
    return failed_precondition("pipeline.stages: no node has a whole model to exchange, got " +
                               std::to_string(config.pipeline.stages) + ", expected 1");
  }
  return Status::ok();
}

// The run that is measured. It says of everything else what `config` does: the cluster, encodings, model, data.
RunConfig measured_run(const RunConfig& config, std::int64_t rounds, const fs::path& out) {
  RunConfig run = config;
  run.run = RunSection();
  run.run.name = config.run.name;
  run.run.seed = config.run.seed;
  run.run.log_level = config.run.log_level;
  run.run.out = out.string();
  run.run.max_seconds = kAtMost;
  ClusterSection& cluster = run.cluster;
  cluster.nodes_at_start.reset();
  cluster.replicas = 1;
  cluster.etcd.clear();
  cluster.endpoints.resize(cluster.shards);
  run.checkpoint = CheckpointSection();
  run.sync = SyncSection();
  run.sync.combine = CombineMode::kMean;
  run.exchange = ExchangeSection();
  TrainSection& train = run.train;
  for (OptimizerSection* const optimizer : {&train.optimizer, &train.inner_optimizer}) {
    optimizer->lr = kLearningRate;
    optimizer->schedule = ScheduleSection();
    optimizer->staleness = StalenessScaling::kNone;
    optimizer->delay_compensation = CompensationSection();
  }
  train.local_steps = 1;
  train.local_time.reset();
  train.local_balance = train.batch_balance = BatchSizing::kEqual;
  train.warm_start_steps = 0;
  train.share = Share::kEven;
  train.total_iterations = rounds * cluster.cluster().workers();
  train.total_epochs.reset();
  train.eval_every_clocks.reset();
  train.eval_samples = 1;
  // A step that overflows fp16 is skipped, so a run with it says what is.
  if (train.precision != Precision::kFp16) {
    train.on_nan = OnNan::kStop;
    train.skips_max = TrainSection().skips_max;
  }
  return run;
}

struct Daemon {
  std::string name;  // "server 0", "node 3"
  std::vector<std::string> command;
  fs::path log;
};

std::vector<Daemon> daemons_of(const DoctorRole& role, const fs::path& programs, const fs::path& folder) {
  std::vector<Daemon> daemons;
  const auto add = [&](const char* program, const char* option, const std::string& what,
                       std::uint32_t number) {
    const std::string place = std::to_string(number);
    daemons.push_back({what + " " + place,
                       {programs / program, folder / "config.yaml", option, place, "--force", "--force"},
                       folder / (what + "-" + place + ".log")});
  };
  for (const ShardId shard : role.shards) add("paceline-server", "--shard", "server", shard.value);
  for (const NodeId node : role.nodes) add("paceline-worker", "--node", "node", node.value);
  return daemons;
}

// Its last words, which say what a daemon died of.
std::string last_line(const fs::path& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it has printed nothing" : last;
}

// Until all have ended. Errors: kAborted a signal asked for the end; kUnavailable one could not be started, or failed:
// the first of them, and what it said. Then none is left.
Status run_all(const std::vector<Daemon>& daemons) {
  sweep::Processes processes;
  for (std::size_t i = 0; i < daemons.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(processes.start(i, daemons[i].command, daemons[i].log));
  }
  while (processes.running() > 0) {
    const auto event = processes.wait(kPollEvery);
    if (event.kind == sweep::Processes::LocalEvent::Kind::kStopped) return aborted("stopped by a signal");
    if (event.kind != sweep::Processes::LocalEvent::Kind::kEnded || event.how.empty()) continue;
    const Daemon& failed = daemons[event.task];
    return unavailable(failed.name + ": " + event.how + ": " + last_line(failed.log));
  }
  return Status::ok();
}

Result<Finding> measured(const RunConfig& config, const DoctorRole& role, const ExchangeTrial& trial) {
  PACELINE_RETURN_IF_ERROR(can_be_measured(config));
  if (role.nodes.empty() &&
      std::find(role.replicas.begin(), role.replicas.end(), 0U) == role.replicas.end()) {
    return Finding{kCheck, CheckVerdict::kOk, "a second replica has no part in it", ""};
  }
  const fs::path folder = config.run.out + ".exchange";
  const fs::path run = folder / "run";
  std::error_code error;
  fs::create_directories(run, error);
  if (error) return unavailable("cannot make " + run.string() + ": " + error.message());
  const RunConfig of_run = measured_run(config, trial.rounds, run);
  PACELINE_RETURN_IF_ERROR(write_file_atomically(folder / "config.yaml", to_yaml(of_run)));
  PACELINE_RETURN_IF_ERROR(run_all(daemons_of(role, trial.programs, folder)));
  const bool has_authority = !role.shards.empty() && role.shards.front() == kAuthority;
  if (!has_authority) {
    return Finding{kCheck, CheckVerdict::kOk, "its part is done; the doctor of shard 0 says what it came to",
                   ""};
  }
  PACELINE_ASSIGN_OR_RETURN(const Layout layout, network_layout(of_run));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<WorkerPhases> workers, read_phases(run));
  const auto times = sweep::measured_times(workers);
  if (!times) return failed_precondition("the workers report no round in " + run.string());
  return Finding{
      kCheck, CheckVerdict::kOk,
      printed("an exchange of %s (%lld parameters) by %lld workers takes %.4g s, a mini-batch %.4g s: "
              "S = %.4g, by %lld rounds without the longest tenth",
              of_run.train.model == "layers" ? "train.layers" : of_run.train.model.c_str(),
              static_cast<long long>(layout.size()),
              static_cast<long long>(of_run.cluster.cluster().workers()), times->exchange, times->mini_batch,
              times->exchange / times->mini_batch, static_cast<long long>(trial.rounds)),
      "`paceline speedup --measured " + run.string() + "` says how many local steps pay here"};
}

}  // namespace

void measure_exchange(const RunConfig& config, const DoctorRole& role, const ExchangeTrial& trial,
                      Findings& findings) {
  Result<Finding> found = measured(config, role, trial);
  findings.push_back(found
                         ? *std::move(found)
                         : Finding{kCheck, CheckVerdict::kFailed, found.status().message(),
                                   "let the doctors of all machines measure at the same time, or look into " +
                                       config.run.out + ".exchange"});
}

}  // namespace paceline
