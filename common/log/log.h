// Log: what a daemon did, in its run directory; warnings and errors also on standard error, one line each. A
// thin face before spdlog, so that only log.cc sees the library and tests can listen.
//
// Lines look like "2026-01-31 12:00:00.123 warn  node 2 lost: silent for 10.2 s". Thread: any.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "common/status.h"

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

class Log {
 public:
  using Listener = std::function<void(LogLevel, const std::string&)>;
  enum class Begin { kAnew, kBehind };

  // Forgets everything.
  Log();
  // Writes into `file` (begun anew, or behind what it holds) what is at least `level` ("debug", "info",
  // "warn", "error"), flushed at once but for debug lines, which the first line that comes a second after the
  // last flush takes along. Warnings and errors also go to standard error, as
  // "<program>: <text>".
  // Errors: kUnavailable when the file cannot be opened; kInvalidArgument an unknown level.
  static Result<Log> open(const std::filesystem::path& file, const std::string& program,
                          const std::string& level, Begin begin = Begin::kAnew);
  // Hands every line to `listener`, on the thread that logs.
  static Log to(Listener listener);

  void debug(const std::string& text) const { write(LogLevel::kDebug, text); }
  void info(const std::string& text) const { write(LogLevel::kInfo, text); }
  void warn(const std::string& text) const { write(LogLevel::kWarn, text); }
  void error(const std::string& text) const { write(LogLevel::kError, text); }
  void write(LogLevel level, const std::string& text) const;

 private:
  Listener listener_;
};

}  // namespace paceline
