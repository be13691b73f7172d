// The one file that sees spdlog.
#include "common/log/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

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

constexpr const char* kLinePattern = "%Y-%m-%d %H:%M:%S.%e %-5l %v";

// Formats a line and hands it over.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(LineWriter& writer) : writer_(writer) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const bool waits = message.level == spdlog::level::debug;
    writer_.write(std::string(line.data(), line.size()),
                  waits ? LineWriter::When::kSoon : LineWriter::When::kAtOnce);
  }
  void flush_() override {}

  LineWriter& writer_;
};

std::string lines(std::int64_t count) { return std::to_string(count) + (count == 1 ? " line" : " lines"); }

// A line of the log that no logger wrote.
std::string line_of_log(const std::string& text) {
  spdlog::pattern_formatter formatter(kLinePattern);
  spdlog::memory_buf_t line;
  formatter.format(spdlog::details::log_msg("", spdlog::level::warn, text), line);
  return std::string(line.data(), line.size());
}

class File {
 public:
  File(Descriptor file, const std::string& path, const std::string& program, spdlog::level::level_enum level,
       LineWriter& errors)
      : path_(path),
        written_(std::move(file), LineWriter::kBytesToKeep,
                 [](std::int64_t missing, const std::string& why) {
                   return line_of_log(lines(missing) + " of this log are missing here: " + why);
                 }),
        errors_(errors),
        file_(program, std::make_shared<Sink>(written_)),
        terminal_(program, std::make_shared<Sink>(errors)) {
    errors.follow(written_);
    file_.set_level(level);
    file_.set_pattern(kLinePattern);
    terminal_.set_level(spdlog::level::warn);
    // On a terminal a status may stand from this line on (server/run/status_display.h): what is said takes its
    // place.
    const char* const term = std::getenv("TERM");
    const bool obeys = isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
    terminal_.set_pattern(obeys ? "\r\033[J%n: %v" : "%n: %v");
  }
  ~File() {
    (void)written_.flush(LineWriter::kAtEnd);
    log_lost_lines(written_.unwritten());
    (void)errors_.flush(LineWriter::kAtEnd);
    log_lost_errors(errors_.unwritten());
  }
  File(const File&) = delete;

  void write(LogLevel level, const std::string& text) {
    file_.log(level_of(level), text);
    terminal_.log(level_of(level), text);
    log_lost_lines(written_.dropped());
    log_lost_errors(errors_.dropped());
  }

  std::int64_t lines_dropped() const { return written_.dropped().lines + errors_.dropped().lines; }

 private:
  // Each time that they are twice as many: what is never read must not fill a disk.
  static bool is_worth_a_line(std::atomic<std::int64_t>& next, std::int64_t missing) {
    std::int64_t from = next.load(std::memory_order_relaxed);
    return missing >= from && next.compare_exchange_strong(from, 2 * missing);
  }
  void log_lost_errors(const LineWriter::Dropped& missing) {
    if (!is_worth_a_line(next_of_errors_, missing.lines)) return;
    file_.warn("standard error lacks {} so far: {}", lines(missing.lines), missing.why);
  }
  void log_lost_lines(const LineWriter::Dropped& missing) {
    if (!is_worth_a_line(next_of_log_, missing.lines)) return;
    terminal_.warn("the log {} lacks {} so far: {}", path_, lines(missing.lines), missing.why);
  }

  const std::string path_;
  LineWriter written_;
  LineWriter& errors_;
  spdlog::logger file_;
  spdlog::logger terminal_;
  std::atomic<std::int64_t> next_of_errors_{1};
  std::atomic<std::int64_t> next_of_log_{1};
};

}  // namespace

Log::Log() = default;

Result<Log> Log::open(const std::filesystem::path& file, const std::string& program, const std::string& level,
                      Begin begin, LineWriter& errors) {
  PACELINE_ASSIGN_OR_RETURN(const auto threshold, parse_level(level));
  const std::string cannot = "cannot open the log " + file.string() + ": ";
  // A named pipe that nobody reads is refused here rather than waited for.
  const int truncate = begin == Begin::kTruncate ? O_TRUNC : 0;
  Descriptor opened(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | truncate, 0666));
  if (!opened.is_open()) return unavailable(cannot + std::strerror(errno));
  try {
    auto sink = std::make_shared<File>(std::move(opened), file.string(), program, threshold, errors);
    Log log = to([sink](LogLevel l, const std::string& text) { sink->write(l, text); });
    log.dropped_ = [sink] { return sink->lines_dropped(); };
    return log;
  } catch (const std::exception& e) {  // no thread, or spdlog
    return unavailable(cannot + e.what());
  }
}

Log Log::to(Listener listener) {
  Log log;
  log.listener_ = std::move(listener);
  return log;
}

std::int64_t Log::lines_dropped() const { return dropped_ ? dropped_() : 0; }

void Log::write(LogLevel level, const std::string& text) const {
  if (listener_) listener_(level, text);
}

}  // namespace paceline
