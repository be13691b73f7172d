#include "simulate/run.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/report/run_summary.h"
#include "common/report/tensorboard.h"
#include "common/trace/trace_file.h"
#include "simulate/computation.h"
#include "simulate/norm_groups.h"
#include "simulate/plan.h"
#include "simulate/trace.h"
#include "simulate/training.h"
#include "worker/model/norm_meeting.h"
#include "worker/network_task.h"

namespace paceline::simulate {
namespace {

namespace fs = std::filesystem;

// What says that a run is there.
constexpr const char* kMarks[] = {"summary.json", "curve.csv", "server.log"};

// What would contradict the new run if it stayed.
bool is_leftover(const std::string& name) {
  for (const char* file :
       {"summary.json", "curve.csv", "phases.csv", "phases_histogram.csv", kPhasesSoFarFile, "progress.csv",
        "staleness.csv", "model.bin", trace::kTraceFile}) {
    if (name == file) return true;
  }
  if (is_event_file(name)) return true;
  if (trace::is_part(name)) return true;
  return name.ends_with(".log") && (name.starts_with("server") || name.starts_with("worker-"));
}

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

// In virtual time, which begins in 1970: the same run writes the same bytes.
Status write_events(const fs::path& out, const Outcome& outcome) {
  PACELINE_ASSIGN_OR_RETURN(EventFile file, EventFile::begin(out, 0.0));
  for (const CurveRow& row : outcome.curve) PACELINE_RETURN_IF_ERROR(file.append(row));
  return file.append(outcome.phases, outcome.summary.final_version, outcome.summary.wall_seconds);
}

Status clear(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) return unavailable("cannot make the run directory " + out.string() + ": " + error.message());
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(out, error), end; !error && it != end; it.increment(error)) {
    if (is_leftover(it->path().filename().string())) leftovers.push_back(it->path());
  }
  for (const fs::path& file : leftovers) {
    fs::remove(file, error);
    if (error) return unavailable("cannot remove " + file.string() + ": " + error.message());
  }
  return Status::ok();
}

// One trainer stands for all workers: eight kinds of node, each with a size or two (the remainders of 8 go to
// some of its threads), twice as many while a change of sizes is under way.
constexpr std::size_t kSizesOfAllWorkers = 32;

// Mini-batches are made when they are asked for: who asks next is not known ahead, and there is one thread.
Result<std::unique_ptr<TaskFactory>> network_tasks(RunConfig config, NormMeeting* meeting) {
  config.data.loader_threads = 0;
  config.data.prefetch_batches = 1;
  return make_network_tasks(config, kSizesOfAllWorkers, meeting);
}

// None where norms go by each worker's own values.
Result<std::optional<NormGroups>> norm_groups(const Plan& plan) {
  std::optional<NormGroups> groups;
  if (plan.config.train.batch_norm_group == 1) return groups;
  PACELINE_ASSIGN_OR_RETURN(NormGroups made, NormGroups::begin(plan));
  groups.emplace(std::move(made));
  return groups;
}

Result<Outcome> train(const RunConfig& config, std::unique_ptr<ComputeTimes> times, TaskFactory* tasks) {
  const Layout* const layout = tasks == nullptr ? nullptr : &tasks->layout();
  PACELINE_ASSIGN_OR_RETURN(const Plan plan, make_plan(config, std::move(times), layout));
  std::optional<NormMeeting> meeting;
  if (config.train.batch_norm_group > 1) meeting.emplace(config.train.batch_norm_group);
  NormMeeting* const meets = meeting ? &*meeting : nullptr;
  std::unique_ptr<TaskFactory> built_in;
  if (tasks == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(built_in, network_tasks(config, meets));
    tasks = built_in.get();
  }
  PACELINE_ASSIGN_OR_RETURN(const std::unique_ptr<Training> training, Training::begin(plan, *tasks, meets));
  PACELINE_ASSIGN_OR_RETURN(std::optional<NormGroups> norms, norm_groups(plan));
  TrainedComputation computation(plan, *training);
  return World(plan, computation, nullptr, nullptr, nullptr, norms ? &*norms : nullptr).run();
}

}  // namespace

Result<SimulatedRun> simulate(const RunConfig& config, const std::optional<fs::path>& trace,
                              TaskFactory* tasks) {
  const bool has_stages = config.pipeline.enabled();
  if (has_stages && config.simulate.mode == SimulateMode::kTraining) {
    return invalid_argument(
        "simulate.mode: stages train as the whole network does, got training with pipeline.stages, expected "
        "timing, or stages: 1");
  }
  if (has_stages && !config.simulate.events.empty()) {
    return invalid_argument("simulate.events: a pipeline ends with the first stage that is lost, got " +
                            std::to_string(config.simulate.events.size()) + ", expected none");
  }
  if (has_stages && trace) {
    return invalid_argument("pipeline.stages: a trace has no times of the whole network, got " +
                            std::to_string(config.pipeline.stages) + " with --trace, expected 1");
  }
  const bool reduces = config.exchange.kind == ExchangeKind::kAllreduce;
  if (reduces && config.simulate.mode == SimulateMode::kTraining) {
    return invalid_argument(
        "simulate.mode: an all-reduce trains as servers do under bsp, got training with exchange.kind: "
        "allreduce, expected timing, or exchange.kind: server");
  }
  if (reduces && config.exchange.shard_optimizer) {
    return invalid_argument(
        "exchange.shard_optimizer: sums and copies apart are not simulated, got true, expected false");
  }
  if (reduces && !config.simulate.events.empty()) {
    return invalid_argument("simulate.events: an all-reduce ends with the first node that is lost, got " +
                            std::to_string(config.simulate.events.size()) + ", expected none");
  }
  if (config.train.batch_norm_group != 1 && !config.simulate.events.empty()) {
    return invalid_argument("simulate.events: a norm group ends with the first member that is lost, got " +
                            std::to_string(config.simulate.events.size()) + " with train.batch_norm_group: " +
                            std::to_string(config.train.batch_norm_group) + ", expected none");
  }
  if (config.train.batch_norm_group != 1 && tasks != nullptr) {
    return invalid_argument("train.batch_norm_group: a task of one's own brings its own layers, got " +
                            std::to_string(config.train.batch_norm_group) + ", expected 1");
  }
  SimulatedRun run{{}, config, std::nullopt};
  std::unique_ptr<ComputeTimes> traced_times;
  std::optional<std::string> fingerprint;
  if (trace) {
    PACELINE_ASSIGN_OR_RETURN(Trace traced, read_trace(*trace, config));
    run.assumed = std::move(traced.calibrated);
    traced_times = std::move(traced.compute_times);
    if (traced_times) {
      run.trace = trace;
      fingerprint = hex(traced.fingerprint);
    }
  }
  if (config.simulate.mode == SimulateMode::kTraining) {
    PACELINE_ASSIGN_OR_RETURN(run.outcome, train(run.assumed, std::move(traced_times), tasks));
  } else {
    PACELINE_ASSIGN_OR_RETURN(const Plan plan, make_plan(run.assumed, std::move(traced_times)));
    TimedComputation computation(plan);
    std::optional<Reductions> reductions;
    if (reduces) {
      PACELINE_ASSIGN_OR_RETURN(reductions, Reductions::begin(plan));
    }
    std::optional<Pipelines> pipelines;
    if (has_stages) {
      PACELINE_ASSIGN_OR_RETURN(pipelines, Pipelines::begin(plan));
    }
    PACELINE_ASSIGN_OR_RETURN(std::optional<NormGroups> norms, norm_groups(plan));
    World world(plan, computation, nullptr, reductions ? &*reductions : nullptr,
                pipelines ? &*pipelines : nullptr, norms ? &*norms : nullptr);
    PACELINE_ASSIGN_OR_RETURN(run.outcome, world.run());
  }
  run.outcome.summary.simulated_seed = config.run.seed;
  run.outcome.summary.trace = std::move(fingerprint);
  return run;
}

Status check_directory(const fs::path& out, Force force) {
  if (force != Force::kNo) return force == Force::kOnce ? check_replaceable(out) : Status::ok();
  std::error_code ignored;
  for (const char* mark : kMarks) {
    if (!fs::exists(out / mark, ignored)) continue;
    const bool is_whole = ended_well(out);
    return failed_precondition("the run directory " + out.string() + " already holds a run" +
                               (is_whole ? " that has ended well (" : " (") + mark +
                               "); choose another --out, or replace it with --force" +
                               (is_whole ? " --force" : ""));
  }
  return Status::ok();
}

Status write_directory(const fs::path& out, const SimulatedRun& run) {
  PACELINE_RETURN_IF_ERROR(clear(out));
  const std::string source =
      run.trace ? "# simulated; computations are drawn from the trace " + run.trace->string() + "\n"
                : "# simulated\n";
  PACELINE_RETURN_IF_ERROR(write_file_atomically(out / "config.yaml", source + to_yaml(run.assumed)));
  PACELINE_RETURN_IF_ERROR(write_curve(out, run.outcome.curve));
  if (run.assumed.run.tensorboard) PACELINE_RETURN_IF_ERROR(write_events(out, run.outcome));
  if (!run.outcome.phases.empty()) PACELINE_RETURN_IF_ERROR(write_phases(out, run.outcome.phases));
  if (run.outcome.summary.staleness) PACELINE_RETURN_IF_ERROR(write_staleness(out, run.outcome.staleness));
  if (!run.outcome.progress.empty()) PACELINE_RETURN_IF_ERROR(write_progress(out, run.outcome.progress));
  if (const std::optional<ModelFile>& model = run.outcome.model) {
    PACELINE_RETURN_IF_ERROR(write_model_file(out / "model.bin", model->info, model->parameters));
  }
  if (const std::optional<trace::Trace>& recorded = run.outcome.recorded) {
    PACELINE_RETURN_IF_ERROR(trace::write_trace(out / trace::kTraceFile, *recorded));
  }
  return write_summary(out, run.outcome.summary);
}

}  // namespace paceline::simulate
