// What every program's command line has in common: --help, --version, and a usage error that is one line on
// standard error and exit status 2. The only header that names CLI11, and only by a forward declaration.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace paceline {

// Exit statuses of all programs (docs/ARCHITECTURE.md, How faults travel).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailedRun = 1;
inline constexpr int kExitUsage = 2;
// Of --resume and --resume-or-start alone, for who starts a run by a script: what is in the run directory
// stays as it is.
inline constexpr int kExitNothingToResume = 3;     // no checkpoint that is whole
inline constexpr int kExitFinished = 4;            // the run has ended well
inline constexpr int kExitOtherConfiguration = 5;  // its checkpoints are of another configuration

// The version of the whole project, "0.1.0".
const char* project_version();

// How often --force was given. Once replaces a run that did not end well; one that did is worth a second word.
enum class Force { kNo, kOnce, kTwice };
// Adds --force, whose help is `what`; `force` outlives the parsing.
CLI::Option* add_force(CLI::App& app, Force& force, const std::string& what);

// Adds --version to `app` and parses. Returns the status to exit with when the program has nothing further to
// do: kExitOk after printing help or the version to `out`, kExitUsage after one line to `err`; otherwise
// nothing.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv, std::ostream& out,
                                      std::ostream& err);

}  // namespace paceline
