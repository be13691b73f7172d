#include "server/status_display.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string_view>

#include "common/live/status_text.h"

namespace paceline::server {
namespace {

constexpr std::chrono::seconds kLineEvery{5};
constexpr std::chrono::seconds kRewriteEvery{1};
// Back to the line's begin, and clear it to its end.
constexpr std::string_view kClearLine = "\r\033[K";

// Whether standard error takes text now: a terminal that was stopped does not, and a write would wait for it.
bool takes_text() {
  pollfd terminal = {STDERR_FILENO, POLLOUT, 0};
  return poll(&terminal, 1, 0) == 1 && (terminal.revents & POLLOUT) != 0;
}

}  // namespace

std::chrono::seconds StatusDisplay::every() const {
  return style_ == Style::kLines ? kLineEvery : kRewriteEvery;
}

void StatusDisplay::show(const RunStatus& status, Ticks now) {
  if (out_ == nullptr) return;
  const bool training = status.state == "training";
  if (style_ == Style::kLines) {
    if (!training || now < next_) return;
    next_ = now + kLineEvery;
    *out_ << status_line(status) << std::endl;
    return;
  }
  if (!takes_text()) return;
  // The last column is left free: a cursor there may have gone to the next line.
  const std::size_t columns = std::max<std::size_t>(columns_(), 2) - 1;
  std::string line = training ? status_line(status, columns) : printable(status.state);
  // Who is waited for, where the run has not come so far as to say it in numbers.
  if (!training && !status.waits.empty()) line += ": " + printable(status.waits.front());
  *out_ << kClearLine << fitted(line, columns) << std::flush;
  shown_ = true;
}

void StatusDisplay::end() {
  if (shown_ && takes_text()) *out_ << kClearLine << std::flush;
  shown_ = false;
}

std::size_t terminal_columns() {
  constexpr std::size_t kUsual = 80;
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool on_terminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace paceline::server
