#include "common/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <ostream>

namespace paceline {
namespace {

// "check-config, data, ..."
std::string names_of_subcommands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each : app.get_subcommands(nullptr))
    names += (names.empty() ? "" : ", ") + each->get_name();
  return names;
}

}  // namespace

const char* project_version() { return PACELINE_VERSION; }

CLI::Option* add_force(CLI::App& app, Force& force, const std::string& what) {
  const auto given = [&force](std::int64_t times) {
    force = times <= 0 ? Force::kNo : times == 1 ? Force::kOnce : Force::kTwice;
  };
  return app.add_flag_function("--force", given, what);
}

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv, std::ostream& out,
                                      std::ostream& err) {
  app.set_version_flag("--version", app.get_name() + " " + project_version());
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& request) {  // CLI11's way to say that --help or --version was given
    return app.exit(request, out, err);
  } catch (const CLI::ParseError& error) {
    std::string reason = error.what();
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    std::string name = app.get_name();  // of the subcommand that was called, whose --help has the answer
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) {
      at = at->get_subcommands().front();
      name += " " + at->get_name();
    }
    // CLI11 says of an unknown one only that one is required.
    if (at->get_require_subcommand_min() > 0 && at->remaining_size() > 0 &&
        !at->remaining().front().starts_with('-')) {
      reason =
          "no such subcommand, got " + at->remaining().front() + ", expected " + names_of_subcommands(*at);
    }
    err << name << ": " << reason << " (see " << name << " --help)\n";
    return kExitUsage;
  }
}

}  // namespace paceline
