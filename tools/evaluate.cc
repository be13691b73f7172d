#include "tools/evaluate.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <system_error>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/params/model_file.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

struct Evaluation {
  ModelInfo model;
  Metric metric;
};

Result<Evaluation> evaluate_run(const EvaluateOptions& options) {
  const std::filesystem::path run = options.run;
  PACELINE_ASSIGN_OR_RETURN(RunConfig config,
                            load_config((run / "config.yaml").string(), {}, LoadFor::kReading));
  if (!options.data.empty()) config.data.path = options.data;
  if (config.data.path.empty()) {
    return failed_precondition(run.string() +
                               ": trained with a task of your own (it has no data.path), which only the "
                               "program that trained it can evaluate");
  }
  PACELINE_ASSIGN_OR_RETURN(const ModelFile model, read_model_file(run / "model.bin"));
  PACELINE_ASSIGN_OR_RETURN(const Layout expected, network_layout(config));
  PACELINE_RETURN_IF_ERROR(require_layout(model, expected, run / "model.bin"));
  std::error_code error;
  if (!std::filesystem::is_directory(config.data.path, error)) {
    return not_found("data folder '" + config.data.path +
                     "' does not exist; say where the data set is with --data FOLDER");
  }
  PACELINE_ASSIGN_OR_RETURN(const Metric metric, evaluate_network(config, model.parameters));
  return Evaluation{model.info, metric};
}

}  // namespace

int evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& err) {
  const auto evaluation = evaluate_run(options);
  if (!evaluation.is_ok()) {
    err << "paceline evaluate: " << evaluation.status().message() << "\n";
    return evaluation.status().code() == StatusCode::kInternal ? kExitFailedRun : kExitUsage;
  }
  const Metric& metric = evaluation->metric;
  const auto samples = static_cast<double>(metric.samples);
  out << options.run << ": version " << evaluation->model.version.value << " of " << evaluation->model.model
      << std::fixed << ": test loss " << std::setprecision(4) << metric.loss_sum / samples << ", accuracy "
      << std::setprecision(2) << 100.0 * static_cast<double>(metric.correct) / samples << " % of "
      << metric.samples << " samples\n";
  return kExitOk;
}

void add_evaluate(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("evaluate", "Test loss and accuracy of a run's final model");
  const auto options = std::make_shared<EvaluateOptions>();
  command->add_option("run", options->run, "Run directory")->required();
  command->add_option("--data", options->data, "Folder of the data set (default: where the run had it)");
  command->callback([options, &exit_status] { exit_status = evaluate(*options, std::cout, std::cerr); });
}

}  // namespace paceline
