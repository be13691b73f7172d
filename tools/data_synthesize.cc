#include "tools/data_synthesize.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "tools/data_bench.h"

namespace paceline {

int data_synthesize(const SyntheticOptions& options, std::ostream& out, std::ostream& err) {
  const Status status = write_synthetic(options);
  if (!status.is_ok()) {
    err << "paceline data synthesize: " << status.message() << "\n";
    const bool usage =
        status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kFailedPrecondition;
    return usage ? kExitUsage : kExitFailedRun;
  }
  out << options.out.string() << ": " << options.train_samples << " training and " << options.test_samples
      << " test samples, seed " << options.seed << "\n";
  return kExitOk;
}

void add_data_synthesize(CLI::App& app, int& exit_status) {
  CLI::App* data = app.add_subcommand("data", "Data sets");
  data->require_subcommand(1);
  CLI::App* command = data->add_subcommand("synthesize", "Generate a data set in CIFAR-10's binary format");
  struct Arguments {
    SyntheticOptions options = {};
    std::string out = {};
    bool force = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  SyntheticOptions& options = arguments->options;
  command->add_option("--out", arguments->out, "Folder to write to; made when missing")->required();
  command->add_option("--train", options.train_samples, "Training samples")->capture_default_str();
  command->add_option("--test", options.test_samples, "Test samples")->capture_default_str();
  command->add_option("--seed", options.seed, "Same seed, same bytes")
      ->check(CLI::NonNegativeNumber)  // or CLI11 would take -1 for the largest number
      ->capture_default_str();
  command->add_flag("--force", arguments->force, "Overwrite a data set that is already there");
  command->callback([arguments, &exit_status] {
    arguments->options.out = arguments->out;
    if (arguments->force) arguments->options.overwrite = Overwrite::kAllow;
    exit_status = data_synthesize(arguments->options, std::cout, std::cerr);
  });
  add_data_bench(*data, exit_status);
}

}  // namespace paceline
