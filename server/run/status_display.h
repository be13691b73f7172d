// StatusDisplay: what a server shows of its run where it was started. On a terminal two lines of the run and
// one of each node, rewritten each second; elsewhere, in a file or a pipe, a line every few seconds. The
// cursor stays in the first of these lines: what the log says on standard error meanwhile takes their place
// (common/log/log.cc), and the next status is written below it.
//
// Thread: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/live/run_status.h"

namespace paceline::server {

class StatusDisplay {
 public:
  enum class Style { kLines, kTerminal };

  // Characters.
  struct Size {
    std::size_t columns = 80;
    std::size_t rows = 24;
  };

  // Shows it at `out` (nullptr: nowhere), which outlives this; `size` says how large a terminal is now.
  StatusDisplay(std::ostream* out, Style style, std::function<Size()> size)
      : out_(out), style_(style), size_(std::move(size)) {}

  // How often there is something new to show.
  std::chrono::seconds every() const;

  // A terminal that takes no text just now (Ctrl-S) is left out: it must not hold up the run.
  void show(const RunStatus& status, Ticks now);
  // There is no more to show: a terminal's lines are cleared for what comes.
  void end();

 private:
  // Among lines: a wait that has stayed the same for as long as lines are apart, once.
  void show_wait(const RunStatus& status, Ticks now);

  std::ostream* out_;
  Style style_;
  std::function<Size()> size_;
  Ticks next_;
  // What the run waits for before or after its training, and when that is a line; none once it was.
  std::string wait_;
  std::optional<Ticks> wait_line_;
  bool shown_ = false;
};

// How large the terminal behind standard error is; 80 x 24 where it does not say.
StatusDisplay::Size terminal_size();
// Whether standard error is one that obeys (TERM is not "dumb").
bool on_terminal();

}  // namespace paceline::server
