#include "tools/check_config.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "common/caffe/colours.h"
#include "common/config/command_line.h"
#include "common/config/load.h"
#include "common/config/resume_keeps.h"
#include "common/network/stages.h"
#include "common/params/rates.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

// A model of the user's own is not known here, as where there are no data or the loop says how it is cut.
Status check_init_from(const RunConfig& config) {
  if (config.data.path.empty() || cut_by_loop(config.pipeline.balance)) return Status::ok();
  const Result<Layout> layout = network_layout(config);
  if (config.train.init_from.empty() || !layout.is_ok()) return Status::ok();
  std::vector<float> values(static_cast<std::size_t>(layout->size()));
  const Result<TensorsTaken> taken = caffe::take_init_from(config, *layout, values);
  return taken.is_ok() ? Status::ok() : Status(taken.status()).with_context("train.init_from");
}

}  // namespace

int check_config(const CheckConfigOptions& options, std::ostream& out, std::ostream& err) {
  if (options.reference) {
    out << reference_yaml();
    return kExitOk;
  }
  if (options.path.empty()) {
    err << "paceline check-config: no file, expected FILE or --reference (see paceline check-config "
           "--help)\n";
    return kExitUsage;
  }
  if (options.resume) {
    if (const Status kept = check_resume_keeps(options.path, options.overrides); !kept.is_ok()) {
      err << kept.message() << "\n";
      return kExitOtherConfiguration;
    }
  }
  std::vector<std::string> notes;
  const Result<RunConfig> config = load_config(options.path, options.overrides, LoadFor::kDaemons, &notes);
  if (options.get.empty()) {
    for (const std::string& note : notes) err << note << "\n";
  }
  if (!config) {
    err << config.status().message() << "\n";
    return kExitUsage;
  }
  if (options.data) {
    if (const Status data = check_data(*config).status(); !data.is_ok()) {
      err << "paceline check-config: " << data.message() << "\n";
      return kExitUsage;
    }
  }
  if (options.init) {
    if (const Status init = check_init_from(*config); !init.is_ok()) {
      err << "paceline check-config: " << init.message() << "\n";
      return kExitUsage;
    }
  }
  if (!options.get.empty()) {
    const Result<std::string> value = value_of(*config, options.get);
    if (!value) {
      err << "paceline check-config: " << value.status().message() << "\n";
      return kExitUsage;
    }
    out << *value << "\n";
    return kExitOk;
  }
  // A comment, so that --print's output as a whole is a configuration.
  out << (options.print ? "# " : "") << options.path << ": ok"
      << (config->data.path.empty() ? ", but no data.path: only for a task of your own" : "") << "\n";
  const std::string rate = rate_text(*config);
  if (!rate.empty()) out << (options.print ? "# " : "") << rate << "\n";
  if (options.print) out << to_yaml(*config);
  return kExitOk;
}

void add_check_config(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("check-config", "Check a configuration file; print what it comes to");
  const auto options = std::make_shared<CheckConfigOptions>();
  command->add_option("FILE", options->path, "The configuration");
  command->add_option("SETTING", options->overrides, "key.path=value: overrides, as the daemons take them");
  command->add_flag("--data", options->data, "Read the data set, too, as every node does when it starts");
  command->add_flag("--init", options->init,
                    "Read train.init_from's file, too, as node 0 does where a run begins");
  command->add_flag("--resume", options->resume,
                    "FILE is the config.yaml of a run that goes on: refuse what a resume may not change");
  command->add_flag("--print", options->print, "Print the effective configuration, every key");
  command->add_option("--get", options->get, "Print the effective value of this key and nothing else");
  command->add_flag("--reference", options->reference,
                    "Print every key with its default, unit, effect and trade-off");
  command->callback([options, &exit_status] { exit_status = check_config(*options, std::cout, std::cerr); });
}

}  // namespace paceline
