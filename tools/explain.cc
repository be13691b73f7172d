#include "tools/explain.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/text/printable.h"
#include "common/trace/merge.h"
#include "common/trace/trace_file.h"
#include "tools/explain_text.h"
#include "tools/explain_waits.h"

namespace paceline {
namespace {

int refused_explanation(std::ostream& err, const std::string& what) {
  err << "paceline explain: " << printable(what) << "\n";
  return kExitUsage;
}

// The waits of the worker "1.2" alone; none: the trace has no such worker.
std::vector<Wait> waits_of_worker(std::vector<Wait> waits, const std::string& worker) {
  std::erase_if(waits, [&](const Wait& wait) { return to_string(wait.worker) != worker; });
  return waits;
}

int explain_one(const ExplainOptions& options, const trace::Trace& recorded, std::vector<Wait> waits,
                std::ostream& out, std::ostream& err) {
  const std::vector<Wait> own = waits_of_worker(std::move(waits), *options.worker);
  if (own.empty()) {
    for (const WorkerId missing : recorded.without_spans()) {
      if (to_string(missing) != *options.worker) continue;
      const std::string node = to_string(missing.node);
      return refused_explanation(
          err,
          options.run + ": --worker: the trace has decisions about worker " + *options.worker +
              ", but no phases; " +
              (was_lost(recorded, missing.node) ? "node " + node + " was lost; unless it was killed, " : "") +
              "bring its node's trace-node-" + node + ".json there and call paceline trace " + options.run);
    }
    std::string there;
    for (const trace::WorkerSpans& worker : recorded.workers) {
      if (!worker.spans.empty()) there += (there.empty() ? "" : ", ") + to_string(worker.worker);
    }
    return refused_explanation(err,
                               options.run + ": --worker: got " + *options.worker +
                                   ", expected one that the trace has: " + (there.empty() ? "none" : there));
  }
  const auto found =
      std::find_if(own.rbegin(), own.rend(), [&](const Wait& w) { return w.clock.value == *options.clock; });
  if (found == own.rend()) {
    const WorkerId worker = own.front().worker;
    const auto left_out = recorded.find(worker)->left_out;
    return refused_explanation(
        err, options.run + ": --clock: got " + std::to_string(*options.clock) +
                 ", expected one at which worker " + *options.worker + " waited: from " +
                 to_string(own.front().clock) + " to " + to_string(own.back().clock) +
                 (left_out > 0 ? "; older ones are left out of the trace (run.trace_events)" : ""));
  }
  out << (options.format == "json" ? wait_json(*found, recorded)
                                   : printable_lines(wait_text(*found, recorded)));
  return kExitOk;
}

// "barrier, network, … or stage"
std::string all_causes() {
  std::string text;
  for (std::size_t c = 0; c < kWaitCauses.size(); ++c) {
    text += (c == 0 ? "" : c + 1 == kWaitCauses.size() ? " or " : ", ") + std::string(kWaitCauses[c]);
  }
  return text;
}

std::optional<WaitCause> cause_named(const std::string& name) {
  const auto found = std::find(kWaitCauses.begin(), kWaitCauses.end(), name);
  if (found == kWaitCauses.end()) return std::nullopt;
  return static_cast<WaitCause>(found - kWaitCauses.begin());
}

// A run that was to be traced and has no trace has not come to its end: it is then that traces are written.
std::string why_no_trace(const std::string& run, const Status& status) {
  if (status.code() != StatusCode::kNotFound) return status.message();
  const Result<RecordedConfig> recorded =
      load_recorded_config((std::filesystem::path(run) / "config.yaml").string());
  if (!recorded.is_ok() || !recorded->config.run.trace) return status.message();
  return run +
         ": no trace: run.trace is true in its config.yaml, but the run has ended before its trace was " +
         "written, or goes on: it is written when training is over, and a process that is killed writes "
         "none; " +
         "see its server.log";
}

// Of a run whose configuration is not there: servers, and no groups of nodes.
std::vector<Wait> waits_of_run(const std::string& run, const trace::Trace& trace) {
  const Result<RecordedConfig> recorded =
      load_recorded_config((std::filesystem::path(run) / "config.yaml").string());
  if (!recorded.is_ok()) return waits_of(trace);
  const bool sums = recorded->config.exchange.kind == ExchangeKind::kAllreduce;
  return waits_of(trace, sums ? ExchangedBy::kAllreduce : ExchangedBy::kServers,
                  recorded->config.pipeline.stages, recorded->config.train.batch_norm_group);
}

}  // namespace

int explain(const ExplainOptions& options, std::ostream& out, std::ostream& err) {
  if (options.worker.has_value() != options.clock.has_value()) {
    return refused_explanation(err,
                               "--worker and --clock: expected both, or neither for the costliest waits");
  }
  if (options.format != "table" && options.format != "json") {
    return refused_explanation(err, "--format: got \"" + options.format + "\", expected table or json");
  }
  std::optional<WaitCause> cause;
  if (options.cause) {
    cause = cause_named(*options.cause);
    if (!cause) {
      return refused_explanation(
          err, "--cause: got \"" + quotable(*options.cause) + "\", expected " + all_causes());
    }
    if (options.worker) return refused_explanation(err, "--cause goes without --worker and --clock");
  }
  const Result<trace::Trace> recorded = trace::read_run(options.run);
  if (!recorded.is_ok()) return refused_explanation(err, why_no_trace(options.run, recorded.status()));
  std::vector<Wait> waits = waits_of_run(options.run, *recorded);
  if (options.worker) return explain_one(options, *recorded, std::move(waits), out, err);
  Explained explained;
  explained.run = options.format == "json" ? options.run : printable(options.run);
  explained.cause = cause;
  for (const Wait& wait : waits) explained.waited += wait.length;
  explained.worker_time = worker_time(*recorded);
  explained.causes = costs_of(waits);
  explained.waits = std::move(waits);
  out << (options.format == "json" ? explained_json(explained, *recorded)
                                   : printable_lines(explained_text(explained, *recorded)));
  return kExitOk;
}

int merge_trace(const std::string& run, std::ostream& out, std::ostream& err) {
  const Result<trace::Trace> whole = trace::merge_parts(run);
  if (!whole.is_ok()) {
    err << "paceline trace: " << printable(why_no_trace(run, whole.status())) << "\n";
    return kExitUsage;
  }
  out << printable(run) << "/" << trace::kTraceFile << ": " << whole->events() << " events of "
      << whole->processes.size() << " processes, " << whole->left_out() << " left out\n";
  return kExitOk;
}

void add_explain(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("explain", "Say why workers of a traced run (run.trace) waited");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("RUN", options->run, "The run directory")->required();
  command->add_option("--worker", options->worker, "With --clock: of this worker, NODE.THREAD");
  command->add_option("--clock", options->clock, "With --worker: before it began this iteration");
  command->add_option("--cause", options->cause, "Of this cause alone: " + all_causes());
  command->add_option("--format", options->format, "table or json");
  command->callback([options, &exit_status] { exit_status = explain(*options, std::cout, std::cerr); });
}

void add_trace(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("trace", "Put the parts of a run's trace together: trace-*.json into trace.json");
  const auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "The run directory")->required();
  command->callback([run, &exit_status] { exit_status = merge_trace(*run, std::cout, std::cerr); });
}

}  // namespace paceline
