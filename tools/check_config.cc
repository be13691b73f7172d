#include "tools/check_config.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "worker/network_task.h"

namespace paceline {

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
  std::vector<std::string> notes;
  const Result<RunConfig> config = load_config(options.path, options.overrides, LoadFor::kDaemons, &notes);
  for (const std::string& note : notes) err << note << "\n";
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
  command->add_flag("--print", options->print, "Print the effective configuration, every key");
  command->add_option("--get", options->get, "Print the effective value of this key and nothing else");
  command->add_flag("--reference", options->reference,
                    "Print every key with its default, unit, effect and trade-off");
  command->callback([options, &exit_status] { exit_status = check_config(*options, std::cout, std::cerr); });
}

}  // namespace paceline
