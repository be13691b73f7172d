// StatusDisplay: what a server shows of its run where it was started. On a terminal one line that is
// rewritten each second; elsewhere, in a file or a pipe, a line every few seconds. What the log says on
// standard error meanwhile takes the line's place (common/log/log.cc), and the next status is written below
// it.
//
// Thread: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <utility>

#include "common/instant.h"
#include "common/live/run_status.h"

namespace paceline::server {

class StatusDisplay {
 public:
  enum class Style { kLines, kTerminal };

  // Shows it at `out` (nullptr: nowhere), which outlives this; `columns` says how wide a terminal is now.
  StatusDisplay(std::ostream* out, Style style, std::function<std::size_t()> columns)
      : out_(out), style_(style), columns_(std::move(columns)) {}

  // How often there is something new to show; of training alone where only lines are written.
  std::chrono::seconds every() const;
  bool of_training_alone() const { return style_ == Style::kLines; }

  // A terminal that takes no text just now (Ctrl-S) is left out: it must not hold up the run.
  void show(const RunStatus& status, Ticks now);
  // There is no more to show: a terminal's line is cleared for what comes.
  void end();

 private:
  std::ostream* out_;
  Style style_;
  std::function<std::size_t()> columns_;
  Ticks next_;
  bool shown_ = false;
};

// How many columns the terminal behind standard error has; 80 where it does not say.
std::size_t terminal_columns();
// Whether standard error is one that obeys (TERM is not "dumb").
bool on_terminal();

}  // namespace paceline::server
