// The one file that sees spdlog.
#include "common/log/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

constexpr auto kFlushEvery = std::chrono::seconds(1);

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

Result<spdlog::level::level_enum> parse_level(const std::string& name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return invalid_argument("log level: got '" + name + "', expected debug, info, warn or error");
}

// Every line reaches the file at once but the debug ones, which are many: those at most a second later, with
// the next line, so that no thread is needed.
class File {
 public:
  File(const std::filesystem::path& path, const std::string& program, spdlog::level::level_enum level,
       Log::Begin begin)
      : file_(program, std::make_shared<spdlog::sinks::basic_file_sink_mt>(
                           path.string(), /*truncate=*/begin == Log::Begin::kAnew)),
        terminal_(program, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    file_.set_level(level);
    file_.set_pattern("%Y-%m-%d %H:%M:%S.%e %-5l %v");
    file_.flush_on(spdlog::level::info);
    terminal_.set_level(spdlog::level::warn);
    // On a terminal a status may stand from this line on (server/status_display.h): what is said takes its
    // place.
    const char* const term = std::getenv("TERM");
    const bool obeys = isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
    terminal_.set_pattern(obeys ? "\r\033[J%n: %v" : "%n: %v");
  }

  void write(LogLevel level, const std::string& text) {
    file_.log(level_of(level), text);
    terminal_.log(level_of(level), text);
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    auto last = flushed_.load(std::memory_order_relaxed);
    constexpr auto kEvery = std::chrono::steady_clock::duration(kFlushEvery).count();
    if (now - last >= kEvery && flushed_.compare_exchange_strong(last, now)) file_.flush();
  }

 private:
  spdlog::logger file_;
  spdlog::logger terminal_;
  std::atomic<std::chrono::steady_clock::rep> flushed_{0};
};

}  // namespace

Log::Log() = default;

Result<Log> Log::open(const std::filesystem::path& file, const std::string& program, const std::string& level,
                      Begin begin) {
  PACELINE_ASSIGN_OR_RETURN(const auto threshold, parse_level(level));
  try {
    auto sink = std::make_shared<File>(file, program, threshold, begin);
    return to([sink](LogLevel l, const std::string& text) { sink->write(l, text); });
  } catch (const spdlog::spdlog_ex& e) {
    return unavailable("cannot open the log " + file.string() + ": " + e.what());
  }
}

Log Log::to(Listener listener) {
  Log log;
  log.listener_ = std::move(listener);
  return log;
}

void Log::write(LogLevel level, const std::string& text) const {
  if (listener_) listener_(level, text);
}

}  // namespace paceline
