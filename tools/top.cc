#include "tools/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>
#include <thread>

#include "common/config/command_line.h"
#include "common/live/status_text.h"
#include "tools/http_get.h"

namespace paceline {
namespace {

constexpr std::chrono::seconds kEvery{1};
constexpr std::chrono::seconds kTimeout{5};
// To the screen's first place; what is after the new text is cleared.
constexpr const char* kHome = "\033[H";
constexpr const char* kClearToEnd = "\033[J";
constexpr const char* kClearScreen = "\033[2J";
constexpr std::size_t kRowsOfText = 10'000;

// "http://127.0.0.1:8080/status" -> "127.0.0.1:8080"
std::string host_and_port_of(std::string endpoint) {
  const std::string scheme = "http://";
  if (endpoint.starts_with(scheme)) endpoint.erase(0, scheme.size());
  return endpoint.substr(0, endpoint.find('/'));
}

Screen screen_of_standard_output() {
  Screen screen;
  winsize size = {};
  const char* const term = std::getenv("TERM");
  screen.is_terminal =
      isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";  // it obeys
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    screen.columns = size.ws_col;
    screen.rows = size.ws_row;
  }
  return screen;
}

// Each line cleared after its end, so that nothing of a longer one stays.
std::string for_terminal(const std::string& table) {
  std::string text = kHome;
  for (const char c : table) text += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
  return text + kClearToEnd;
}

}  // namespace

int top(const TopOptions& options, const std::function<Screen()>& screen, std::ostream& out,
        std::ostream& err) {
  const std::string address = host_and_port_of(options.endpoint);
  for (bool first = true;; first = false) {
    const Result<std::string> text = http_get(address, "/status", kTimeout);
    const Result<RunStatus> status =
        text.is_ok() ? parse_run_status(*text) : Result<RunStatus>(text.status());
    if (!status.is_ok()) {
      // The server has ended between two looks: so has the run.
      if (!first && status.status().code() == StatusCode::kUnavailable) {
        out << "the run's server has ended\n";
        return kExitOk;
      }
      const std::string whose = text.is_ok() ? address + ": " : "";
      err << "paceline top: " << printable(whose + status.status().message()) << "\n";
      return status.status().code() == StatusCode::kInvalidArgument ? kExitUsage : kExitFailedRun;
    }
    const Screen shown = screen();
    if (options.once || !shown.is_terminal) {
      out << status_table(*status, shown.is_terminal ? shown.columns : kRowsOfText, kRowsOfText);
      return kExitOk;
    }
    out << (first ? kClearScreen : "") << for_terminal(status_table(*status, shown.columns, shown.rows - 1))
        << std::flush;
    if (status->over()) return kExitOk;
    std::this_thread::sleep_for(kEvery);
  }
}

void add_top(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("top", "Watch a run that goes, from anywhere that reaches its run.http");
  const auto options = std::make_shared<TopOptions>();
  command->add_option("ENDPOINT", options->endpoint, "The run's run.http, e.g. 127.0.0.1:8080")->required();
  command->add_flag("--once", options->once, "Print the table once and end");
  command->callback([options, &exit_status] {
    exit_status = top(*options, screen_of_standard_output, std::cout, std::cerr);
  });
}

}  // namespace paceline
