#include "tools/export.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "common/caffe/colours.h"
#include "common/caffe/weights.h"
#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/params/model_file.h"
#include "common/params/safetensors.h"
#include "worker/model/onnx_graph.h"

namespace paceline {
namespace {

// The run's configuration, which lies beside its model.
std::filesystem::path recorded_beside(const std::filesystem::path& path) {
  return path.parent_path() / "config.yaml";
}

// What a network of pictures has learned of red, Caffe looks for where blue is. The run's configuration
// says what it was trained with; a model that lies alone is taken as it is.
Status turn_colours(const std::filesystem::path& path, ModelFile& model) {
  const std::filesystem::path recorded = recorded_beside(path);
  std::error_code error;
  if (!std::filesystem::exists(recorded, error)) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, load_config(recorded.string(), {}, LoadFor::kReading));
  if (!caffe::has_other_colours(config)) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  PACELINE_RETURN_IF_ERROR(require_layout(model, network.layout, path));
  return caffe::exchange_red_and_blue(network, model.parameters).with_context(path.string());
}

// Its file does not say what the layers compute, the configuration does.
Status export_onnx(const std::filesystem::path& path, const ModelFile& model, const std::string& out) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_config(recorded_beside(path).string(), {}, LoadFor::kReading));
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  const Status same = require_layout(model, network.layout, path);
  if (!same.is_ok()) {
    return invalid_argument(same.message() +
                            "; a model of your own is exported by what computes it, as torch.onnx");
  }
  return write_onnx(out, network, model);
}

// What reads the other formats takes running means for what they are. Ours with a weight (batch_norm's debias) are to
// be divided by it, so they leave divided, beside a weight of 1.
void divide_by_running_weights(const Layout& layout, std::span<float> parameters) {
  const std::string suffix = ".running_weight";
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : layout.tensors()) by_name[tensor.name] = &tensor;
  for (const auto& [name, weight] : by_name) {
    if (!name.ends_with(suffix) || weight->traits.role != TensorRole::kBuffer || weight->size() != 1)
      continue;
    float& divisor = parameters[static_cast<std::size_t>(weight->offset)];
    if (divisor == 0.0F) continue;  // nothing was measured
    for (const char* of : {".running_mean", ".running_var"}) {
      const auto found = by_name.find(name.substr(0, name.size() - suffix.size()) + of);
      if (found == by_name.end()) continue;
      const Tensor& tensor = *found->second;
      for (float& value : parameters.subspan(static_cast<std::size_t>(tensor.offset),
                                             static_cast<std::size_t>(tensor.size()))) {
        value /= divisor;
      }
    }
    divisor = 1.0F;
  }
}

Status export_as(const std::string& format, const std::filesystem::path& path, ModelFile& model,
                 const std::string& out) {
  if (format == "safetensors") {
    divide_by_running_weights(model.info.layout, model.parameters);
    return write_safetensors(out, model.info, model.parameters);
  }
  if (format == "onnx") return export_onnx(path, model, out);
  PACELINE_RETURN_IF_ERROR(turn_colours(path, model));
  return caffe::write_weights(out, model.info, model.parameters);
}

}  // namespace

int export_model(const ExportOptions& options, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const Status& status, int exit_status) {
    err << "paceline export: " << status.message() << "\n";
    return exit_status;
  };
  std::filesystem::path path = options.what;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "model.bin";
  Result<ModelFile> model = read_model_file(path);
  if (!model.is_ok()) return fail(model.status(), kExitUsage);
  const Status written = export_as(options.format, path, *model, options.out);
  if (!written.is_ok()) {
    const bool is_refused =
        written.code() == StatusCode::kInvalidArgument || written.code() == StatusCode::kNotFound;
    return fail(written, is_refused ? kExitUsage : kExitFailedRun);
  }
  out << options.out << ": version " << model->info.version.value << " of " << model->info.model << ", "
      << model->parameters.size() << " parameters\n";
  return kExitOk;
}

void add_export(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("export", "Write a run's final model in another program's format");
  const auto options = std::make_shared<ExportOptions>();
  command->add_option("RUN", options->what, "Run directory, or a model.bin")->required();
  command
      ->add_option("--format", options->format,
                   "safetensors, onnx (a network of Paceline's, to be evaluated), or caffemodel")
      ->required()
      ->check(CLI::IsMember({"safetensors", "onnx", "caffemodel"}));
  command->add_option("--out", options->out, "The file")->required();
  command->callback([options, &exit_status] { exit_status = export_model(*options, std::cout, std::cerr); });
}

}  // namespace paceline
