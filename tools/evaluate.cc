#include "tools/evaluate.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/caffe/colours.h"
#include "common/caffe/weights.h"
#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/hex.h"
#include "common/params/init_from.h"
#include "common/params/model_file.h"
#include "common/params/safetensors.h"
#include "server/checkpoint/folder.h"
#include "server/checkpoint/whole.h"
#include "tools/report_numbers.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

struct Evaluation {
  std::string of_what;
  Metric metric;
};

std::string named(Version version, const std::string& model) {
  return "version " + to_string(version) + " of " + model;
}

// What is evaluated, before anything of it is read.
struct Found {
  enum class Kind { kModelFile, kSafetensors, kCaffemodel, kCheckpoint } kind;
  fs::path path;  // the file, or the checkpoint's folder
  fs::path run;   // the directory whose config.yaml it belongs to
};

Found checkpoint_at(const fs::path& folder) {
  return {Found::Kind::kCheckpoint, folder, fs::absolute(folder).parent_path().parent_path()};
}

Result<Found> find(const std::string& what) {
  std::error_code error;
  fs::path path = what;
  if (!path.has_filename()) path = path.parent_path();  // "runs/a/"
  if (server::checkpoint_id_of(path.filename().string())) return checkpoint_at(path);
  if (path.filename() == "best" && path.parent_path().filename() == "checkpoint") {
    const auto best = server::CheckpointFolder(path.parent_path().parent_path(), 0).best();
    if (!best) return not_found(what + ": it names no checkpoint that is there");
    return checkpoint_at(path.parent_path() / server::checkpoint_folder_name(best->id));
  }
  if (fs::is_directory(path, error)) return Found{Found::Kind::kModelFile, path / "model.bin", path};
  Found::Kind kind = is_safetensors(path) ? Found::Kind::kSafetensors : Found::Kind::kModelFile;
  if (caffe::is_weights(path)) kind = Found::Kind::kCaffemodel;
  return Found{kind, path, fs::absolute(path).parent_path()};
}

// Of a ready-made network's file that lies alone, the rest is at its default.
Result<RunConfig> config_of(const EvaluateOptions& options, const Found& found, const ModelFile* model) {
  if (!options.config.empty()) return load_config(options.config, {}, LoadFor::kReading);
  const fs::path recorded = found.run / "config.yaml";
  std::error_code error;
  const bool needs_none = model != nullptr && model->info.model != "layers" && !options.data.empty();
  if (needs_none && !fs::exists(recorded, error)) {
    return parse_config("train: {model: " + model->info.model + "}", options.what, {}, LoadFor::kReading);
  }
  Result<RunConfig> config = load_config(recorded.string(), {}, LoadFor::kReading);
  if (config.status().code() == StatusCode::kNotFound) {
    return not_found(config.status().message() + "; say which with --config FILE");
  }
  return config;
}

Status check_layout(const server::WholeCheckpoint& checkpoint, const Layout& expected, const fs::path& path) {
  if (checkpoint.manifest.layout_hash == expected.hash() &&
      std::ssize(checkpoint.parameters) == expected.size()) {
    return Status::ok();
  }
  return invalid_argument(path.string() + " holds another network: layout hash " +
                          hex(checkpoint.manifest.layout_hash) + ", expected " + hex(expected.hash()));
}

// Asked before its layout is: that is not a network's.
Status check_built_in(const EvaluateOptions& options, const Found& found, const RunConfig& config) {
  if (!options.data.empty() || !config.data.path.empty()) return Status::ok();
  return failed_precondition(found.run.string() +
                             ": trained with a task of your own (it has no data.path), which only the "
                             "program that trained it can evaluate");
}

Result<Metric> measure(const EvaluateOptions& options, RunConfig config, std::span<const float> parameters) {
  if (!options.data.empty()) config.data.path = options.data;
  std::error_code error;
  if (!fs::is_directory(config.data.path, error)) {
    return not_found("data folder '" + config.data.path +
                     "' does not exist; say where the data set is with --data FOLDER");
  }
  return evaluate_network(config, parameters);
}

// Tensor by tensor: of stages with chunks they lie in another order (common/network/stages.h).
Status lay_out_as(const Layout& expected, const fs::path& path, ModelFile& model) {
  if (model.info.layout.hash() == expected.hash()) return Status::ok();
  std::vector<float> parameters(static_cast<std::size_t>(expected.size()));
  const auto tensors = take_parameters(model, path, expected, parameters);
  const bool all = tensors.is_ok() && tensors->kept.empty() && tensors->unused.empty();
  if (!all) return require_layout(model, expected, path);
  model.parameters = std::move(parameters);
  return Status::ok();
}

Result<Evaluation> evaluate_model(const EvaluateOptions& options, const Found& found) {
  PACELINE_ASSIGN_OR_RETURN(ModelFile model, read_model_file(found.path));
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, config_of(options, found, &model));
  PACELINE_RETURN_IF_ERROR(check_built_in(options, found, config));
  PACELINE_ASSIGN_OR_RETURN(const Layout expected, network_layout(config));
  PACELINE_RETURN_IF_ERROR(lay_out_as(expected, found.path, model));
  PACELINE_ASSIGN_OR_RETURN(const Metric metric, measure(options, config, model.parameters));
  return Evaluation{named(model.info.version, model.info.model), metric};
}

// Other programs' files: what they have beside the network's tensors is left out.
Result<Evaluation> evaluate_tensors(const EvaluateOptions& options, const Found& found) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, config_of(options, found, nullptr));
  PACELINE_RETURN_IF_ERROR(check_built_in(options, found, config));
  PACELINE_ASSIGN_OR_RETURN(const Layout layout, network_layout(config));
  std::vector<float> parameters(static_cast<std::size_t>(layout.size()));
  const bool is_caffes = found.kind == Found::Kind::kCaffemodel;
  PACELINE_ASSIGN_OR_RETURN(const TensorsTaken taken,
                            is_caffes ? caffe::take_weights(found.path, config, layout, parameters)
                                      : take_parameters(found.path, layout, parameters));
  if (!taken.kept.empty()) {
    return invalid_argument(found.path.string() + " has no " + taken.kept.front() + ", expected all " +
                            std::to_string(layout.tensors().size()) + " tensors of the network");
  }
  PACELINE_ASSIGN_OR_RETURN(const Metric metric, measure(options, config, parameters));
  return Evaluation{(is_caffes ? "Caffe's weights of " : "safetensors of ") + config.train.model, metric};
}

Result<Evaluation> evaluate_checkpoint(const EvaluateOptions& options, const Found& found) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, config_of(options, found, nullptr));
  PACELINE_RETURN_IF_ERROR(check_built_in(options, found, config));
  PACELINE_ASSIGN_OR_RETURN(const server::WholeCheckpoint checkpoint,
                            server::read_whole_checkpoint(found.path));
  PACELINE_ASSIGN_OR_RETURN(const Layout expected, network_layout(config));
  PACELINE_RETURN_IF_ERROR(check_layout(checkpoint, expected, found.path));
  PACELINE_ASSIGN_OR_RETURN(const Metric metric, measure(options, config, checkpoint.parameters));
  return Evaluation{named(checkpoint.manifest.id.version, config.train.model), metric};
}

}  // namespace

int evaluate(const EvaluateOptions& options, std::ostream& out, std::ostream& err) {
  const auto found = find(options.what);
  const auto evaluation = [&]() -> Result<Evaluation> {
    if (!found.is_ok()) return found.status();
    switch (found->kind) {
      case Found::Kind::kModelFile:
        return evaluate_model(options, *found);
      case Found::Kind::kSafetensors:
      case Found::Kind::kCaffemodel:
        return evaluate_tensors(options, *found);
      case Found::Kind::kCheckpoint:
        break;
    }
    return evaluate_checkpoint(options, *found);
  }();
  if (!evaluation.is_ok()) {
    err << "paceline evaluate: " << evaluation.status().message() << "\n";
    return evaluation.status().code() == StatusCode::kInternal ? kExitFailedRun : kExitUsage;
  }
  const Metric& metric = evaluation->metric;
  const auto samples = static_cast<double>(metric.samples);
  out << options.what << ": " << evaluation->of_what << std::fixed << ": test loss " << std::setprecision(4)
      << metric.loss_sum / samples << ", accuracy "
      << accuracy_text(static_cast<double>(metric.correct) / samples) << " of " << metric.samples
      << " samples\n";
  return kExitOk;
}

void add_evaluate(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("evaluate", "Test loss and accuracy of a run's model, a model file or a checkpoint");
  const auto options = std::make_shared<EvaluateOptions>();
  command
      ->add_option("what", options->what,
                   "Run directory, model file, safetensors, caffemodel, checkpoint (RUN/checkpoint/g1-v…) or "
                   "RUN/checkpoint/best")
      ->required();
  command->add_option("--data", options->data, "Folder of the data set (default: where the run had it)");
  command->add_option("--config", options->config, "Configuration (default: config.yaml of the run)");
  command->callback([options, &exit_status] { exit_status = evaluate(*options, std::cout, std::cerr); });
}

}  // namespace paceline
