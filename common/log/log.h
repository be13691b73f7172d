// Log: what a daemon did, in its run directory; warnings and errors also on standard error, one line each. A
// thin face before spdlog, so that only log.cc sees the library and tests can listen.
//
// Who logs never waits: the file and standard error are written by threads of their own, and what they do not
// take is dropped (common/process/line_writer.h). What either lacks the other says.
//
// Lines look like "2026-01-31 12:00:00.123 warn  node 2 lost: silent for 10.2 s". Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/process/line_writer.h"
#include "common/status.h"

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Log {
 public:
  using Listener = std::function<void(LogLevel, const std::string&)>;
  enum class Begin { kTruncate, kAppend };

  // Forgets everything.
  Log();
  // Writes into `file` (begun anew, or after what it holds) what is at least `level` ("debug", "info",
  // "warn", "error"), at once but for debug lines, which take a second at most. Warnings and errors also go
  // to `errors`, as "<program>: <text>", after what was logged before; it outlives all copies of the log.
  // Errors: kUnavailable when the file cannot be opened; kInvalidArgument an unknown level.
  static Result<Log> open(const std::filesystem::path& file, const std::string& program,
                          const std::string& level, Begin begin, LineWriter& errors);
  // Hands every line to `listener`, on the thread that logs.
  static Log to(Listener listener);

  void debug(const std::string& text) const { write(LogLevel::kDebug, text); }
  void info(const std::string& text) const { write(LogLevel::kInfo, text); }
  void warn(const std::string& text) const { write(LogLevel::kWarn, text); }
  void error(const std::string& text) const { write(LogLevel::kError, text); }
  void write(LogLevel level, const std::string& text) const;

  // Lines that the file and standard error have not taken so far, together; 0 where a listener has them.
  std::int64_t lines_dropped() const;

 private:
  Listener listener_;
  std::function<std::int64_t()> dropped_;
};

}  // namespace paceline
