#include "server/run/status_display.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/live/status_text.h"

namespace paceline::server {
namespace {

constexpr std::chrono::seconds kLineEvery{5};
constexpr std::chrono::seconds kRewriteEvery{1};
// Back to the line's begin, and clear all from there on.
constexpr std::string_view kClear = "\r\033[J";
// Of a terminal's rows the nodes have this part at most, and no more than there is something to see at once.
constexpr std::size_t kRowsOfTerminal = 3;
constexpr std::size_t kNodeRowsMax = 8;

// Whether standard error takes text now: a terminal that was stopped does not, and a write would wait for it.
bool takes_text() {
  pollfd terminal = {STDERR_FILENO, POLLOUT, 0};
  return poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT) != 0;
}

// Who is waited for, where the run has not come so far as to say it in numbers.
std::string state_and_wait(const RunStatus& status) {
  return printable(status.state) + (status.waits.empty() ? "" : ": " + printable(status.waits.front()));
}

}  // namespace

std::chrono::seconds StatusDisplay::every() const {
  return style_ == Style::kLines ? kLineEvery : kRewriteEvery;
}

void StatusDisplay::show(const RunStatus& status, Ticks now) {
  if (out_ == nullptr) return;
  const bool training = status.state == "training";
  if (style_ == Style::kLines) {
    if (!training) return show_wait(status, now);
    if (now < next_) return;
    next_ = now + kLineEvery;
    *out_ << status_line(status) << std::endl;
    return;
  }
  if (!takes_text()) return;
  // The last column is left free: a cursor there may have gone to the next line.
  const Size size = size_();
  const std::size_t columns = std::max<std::size_t>(size.columns, 2) - 1;
  std::vector<std::string> lines;
  if (training) {
    for (std::string& row : status_rows(status, columns)) lines.push_back(std::move(row));
    const std::size_t room = std::min(size.rows / kRowsOfTerminal, kNodeRowsMax);
    for (std::string& node : node_lines(status, columns, room)) lines.push_back(std::move(node));
  } else {
    lines.push_back(fitted(state_and_wait(status), columns));
  }
  std::string text(kClear);
  for (const std::string& line : lines) text += (&line == &lines.front() ? "" : "\n") + line;
  if (lines.size() > 1) text += "\r\033[" + std::to_string(lines.size() - 1) + "A";  // up to the first line
  *out_ << text << std::flush;
  shown_ = true;
}

void StatusDisplay::show_wait(const RunStatus& status, Ticks now) {
  std::string wait = status.waits.empty() ? "" : state_and_wait(status);
  if (wait != wait_) {
    wait_ = std::move(wait);
    wait_line_ = now + kLineEvery;
  } else if (!wait_.empty() && wait_line_ && now >= *wait_line_) {
    wait_line_.reset();
    *out_ << wait_ << std::endl;
  }
}

void StatusDisplay::end() {
  if (shown_ && takes_text()) *out_ << kClear << std::flush;
  shown_ = false;
}

StatusDisplay::Size terminal_size() {
  StatusDisplay::Size known;
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return known;
  if (size.ws_col > 0) known.columns = size.ws_col;
  if (size.ws_row > 0) known.rows = size.ws_row;
  return known;
}

bool on_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace paceline::server
