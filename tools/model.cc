#include "tools/model.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "common/caffe/net.h"
#include "common/caffe/solver.h"
#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/network/network.h"
#include "tools/text_table.h"

namespace paceline {
namespace {

// "3,227,227".
Result<std::optional<Shape>> input_of(const std::string& text) {
  if (text.empty()) return std::optional<Shape>();
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1 || number > 1 << 16) break;
    numbers.push_back(number);
    at = after;
    if (at < end && *at == ',') ++at;
  }
  if (at == end && numbers.size() == 3 && text.back() != ',') {
    Result<Shape> shape = caffe::input_shape(numbers[0], numbers[1], numbers[2]);
    if (!shape.is_ok()) return Status(shape.status()).with_context("--input");
    return std::optional<Shape>(*shape);
  }
  return invalid_argument("--input: got " + text + ", expected channels, height and width, as 3,227,227");
}

Result<NetworkSpec> network_of_caffe(const ModelOptions& options, std::optional<Shape> input,
                                     std::vector<std::string>& notes) {
  const caffe::Phase phase = options.phase == "test" ? caffe::Phase::kTest : caffe::Phase::kTrain;
  PACELINE_ASSIGN_OR_RETURN(const bool is_solver, caffe::is_solver(options.path));
  Result<caffe::Net> read = is_solver ? caffe::read_net_of_solver(options.path, phase, notes)
                                      : caffe::read_net(options.path, {.phase = phase}, notes);
  PACELINE_ASSIGN_OR_RETURN(const caffe::Net net, std::move(read));
  if (!input) input = net.input;
  if (!input && net.data && net.data->crop_size > 0) {
    Result<Shape> cropped = caffe::input_shape(3, net.data->crop_size, net.data->crop_size);
    if (!cropped.is_ok()) {
      return Status(cropped.status())
          .with_context(net.file + ":" + std::to_string(net.data->line) + ": layer " + net.data->name);
    }
    input = *cropped;
  }
  if (!input) {
    return invalid_argument(net.file + ": it does not say what goes in, expected --input C,H,W");
  }
  TrainSection train;
  train.model = "layers";
  train.layers = net.layers;
  auto network = build_network(train, *input, kAnyClasses);
  if (network.is_ok()) return network;
  // "train.layers[3]: conv: …" is a layer of the net's file.
  const std::string& fault = network.status().message();
  for (std::size_t i = 0; i < net.layers.size(); ++i) {
    const std::string key = "train.layers[" + std::to_string(i) + "]: ";
    if (fault.rfind(key, 0) != 0) continue;
    return invalid_argument(net.file + ":" + std::to_string(net.lines[i]) + ": layer " + net.layers[i].name +
                            ": " + fault.substr(key.size()));
  }
  return network;
}

Result<NetworkSpec> network_of(const ModelOptions& options, std::vector<std::string>& notes) {
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Shape> input, input_of(options.input));
  if (options.path.ends_with(".prototxt")) {
    if (options.overrides.empty()) return network_of_caffe(options, input, notes);
    return invalid_argument(options.path + ": a Caffe file has no keys, got " + options.overrides.front() +
                            ", expected none");
  }
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_config(options.path, options.overrides, LoadFor::kReading, &notes));
  if (!input) return build_network(config);
  if (config.train.model == "layers") return build_network(config.train, *input, kAnyClasses);
  return build_network(config.train, *input, options.classes);
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string inputs_of(const NetworkSpec& network, const Layer& layer) {
  std::string names;
  for (const std::size_t value : layer.inputs) {
    names += (names.empty() ? "" : ", ") + (value == 0 ? "input" : network.layers[value - 1].name);
  }
  return names;
}

std::string table_of(const NetworkSpec& network) {
  TextTable table{.title = "input " + to_string(network.input),
                  .ruled = true,
                  .columns = {{"layer", Align::kLeft},
                              {"kind", Align::kLeft},
                              {"reads", Align::kLeft},
                              {"output"},
                              {"parameters"},
                              {"multiply-adds"}}};
  std::int64_t multiply_adds = 0;
  for (const Layer& layer : network.layers) {
    multiply_adds += layer.multiply_adds();
    table.rows.push_back({{layer.name},
                          {name_of(layer.kind)},
                          {inputs_of(network, layer)},
                          {to_string(layer.out)},
                          {grouped(layer.tensors().size - layer.buffers())},
                          {grouped(layer.multiply_adds())}});
  }
  const std::int64_t statistics = network.layout.size() - network.trained();
  return rendered(table, TextStyle::kPlain) + "multiply-adds " + std::to_string(multiply_adds) +
         (statistics == 0 ? "" : "\nrunning statistics " + std::to_string(statistics)) + "\nparameters " +
         std::to_string(network.trained()) + "\n";
}

}  // namespace

int model(const ModelOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<std::string> notes;
  const Result<NetworkSpec> network = network_of(options, notes);
  for (const std::string& note : notes) err << note << "\n";
  if (!network.is_ok()) {
    err << "paceline model: " << network.status().message() << "\n";
    return kExitUsage;
  }
  out << table_of(*network);
  return kExitOk;
}

void add_model(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("model", "A network's layers with shapes, parameters and multiply-adds");
  const auto options = std::make_shared<ModelOptions>();
  command->add_option("FILE", options->path, "Configuration, Caffe net or Caffe solver (*.prototxt)")
      ->required();
  command->add_option("SETTING", options->overrides, "key.path=value: overrides of a configuration");
  command->add_option("--input", options->input, "Channels, height and width of a sample, as 3,227,227");
  command->add_option("--classes", options->classes, "Of a ready-made network with --input: default 10")
      ->check(CLI::Range(2, 65536))
      ->needs("--input");
  command->add_option("--phase", options->phase, "Of a Caffe net: train (default) or test")
      ->check(CLI::IsMember({"train", "test"}));
  command->callback([options, &exit_status] { exit_status = model(*options, std::cout, std::cerr); });
}

}  // namespace paceline
