// Output that is not taken costs lines, and nobody waits for it.
#include "common/process/line_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/log/log.h"
#include "common/process/stop_signals.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLong = 60s;  // until something that comes

// A pipe of a page, whose other end a test reads when it wants to.
struct Pipe {
  Pipe() {
    REQUIRE(pipe2(ends_, O_CLOEXEC) == 0);
    REQUIRE(fcntl(ends_[1], F_SETPIPE_SZ, 4096) == 4096);
  }
  ~Pipe() {
    if (ends_[0] >= 0) close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Descriptor to() { return Descriptor(std::exchange(ends_[1], -1)); }
  void close_reader() { close(std::exchange(ends_[0], -1)); }
  // Up to and with the text.
  std::string read_to(const std::string& last) {
    while (text_.find(last) == std::string::npos) {
      char bytes[4096];
      const ssize_t size = read(ends_[0], bytes, sizeof bytes);
      REQUIRE(size > 0);
      text_.append(bytes, static_cast<std::size_t>(size));
    }
    return text_;
  }

 private:
  int ends_[2] = {-1, -1};
  std::string text_;
};

std::string missing(std::int64_t lines, const std::string& why) {
  return std::to_string(lines) + " missing: " + why + "\n";
}

TEST_CASE("lines come out whole and in order") {
  Pipe pipe;
  LineWriter writer(pipe.to(), LineWriter::kBytesToKeep, missing);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    writer.write(line, i % 2 == 0 ? LineWriter::When::kSoon : LineWriter::When::kAtOnce);
    expected += line;
  }
  CHECK(pipe.read_to("line 999\n") == expected);
  CHECK(writer.flush(kLong));
  CHECK(writer.unwritten().lines == 0);
}

TEST_CASE("what nobody reads is dropped, the oldest first, and is told of once somebody does") {
  Pipe pipe;
  LineWriter writer(pipe.to(), 10'000, missing);
  const std::string line(99, 'x');
  for (int i = 0; i < 1000; ++i) writer.write(std::to_string(i) + line + "\n");
  CHECK_FALSE(writer.flush(0ms));
  const LineWriter::Dropped dropped = writer.dropped();
  CHECK(dropped.lines > 800);  // the pipe's page, what is being written and the queue take the others
  CHECK(writer.unwritten().lines > dropped.lines);
  writer.write("the last\n");
  const std::string text = pipe.read_to("the last\n");
  CHECK(text.find(" missing: nobody takes them\n") != std::string::npos);
  CHECK(text.find("\n999x") != std::string::npos);
}

TEST_CASE("a reader that has gone, and a device that is full, cost lines alone") {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  LineWriter gone(pipe.to(), LineWriter::kBytesToKeep, missing);
  pipe.close_reader();
  LineWriter full(Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)), LineWriter::kBytesToKeep, missing);
  for (LineWriter* writer : {&gone, &full}) {
    writer->write("one\n");
    writer->write("two\nthree\n");
    CHECK(writer->flush(kLong));
    CHECK(writer->dropped().lines == 3);
  }
  CHECK(gone.dropped().why == "Broken pipe");
  CHECK(full.dropped().why == "No space left on device");
}

TEST_CASE("the end of a program does not wait twice for what nobody takes") {
  Pipe pipe;
  LineWriter writer(pipe.to(), LineWriter::kBytesToKeep, missing);
  writer.write(std::string(8192, 'x'));
  CHECK_FALSE(writer.flush(1ms));
}  // and here it is given up: a destructor that waited would take seconds

TEST_CASE("what follows appears after what was written before it, unless that is stuck") {
  const testing::TempFolder folder;
  Pipe pipe;
  LineWriter shown(pipe.to(), LineWriter::kBytesToShow, missing);
  LineStream stream(shown);
  const auto log = Log::open(folder / "log", "program", "info", Log::Begin::kTruncate, shown);
  REQUIRE(log.is_ok());
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i);
    log->info(line);
    stream.stream() << "after " << line << std::endl;
    pipe.read_to("after " + line + "\n");
    CHECK(read_file(folder / "log", 1 << 20).value().find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("what standard error did not take the log counts, and the other way round") {
  std::signal(SIGPIPE, SIG_IGN);
  const testing::TempFolder folder;
  {
    Pipe pipe;
    LineWriter errors(pipe.to(), LineWriter::kBytesToShow, missing);
    const auto log = Log::open(folder / "log", "program", "info", Log::Begin::kTruncate, errors);
    pipe.close_reader();
    CHECK(log->lines_dropped() == 0);
    log->warn("nobody hears this");
    CHECK(errors.flush(kLong));
    CHECK(log->lines_dropped() == 1);  // for the run's summary
  }
  const std::string log = read_file(folder / "log", 1 << 20).value();
  CHECK(log.find("warning nobody hears this\n") != std::string::npos);
  CHECK(log.find("standard error lacks 1 line so far: Broken pipe\n") != std::string::npos);
  Pipe pipe;
  {
    LineWriter errors(pipe.to(), LineWriter::kBytesToShow, missing);
    Log::open("/dev/full", "program", "info", Log::Begin::kAppend, errors)->info("there is no room");
  }
  CHECK(pipe.read_to("\n") == "program: the log /dev/full lacks 1 line so far: No space left on device\n");
}

TEST_CASE("a stop is asked for once, insisting ends at once, and a terminal that closes never insists") {
  using Then = StopRequests::Then;
  StopRequests twice;
  CHECK(twice.asked(SIGTERM) == Then::kStop);
  CHECK(twice.asked(SIGHUP) == Then::kNothing);
  CHECK(twice.asked(SIGINT) == Then::kEndAtOnce);
  StopRequests closed;
  CHECK(closed.asked(SIGHUP) == Then::kStop);
  CHECK(closed.asked(SIGHUP) == Then::kNothing);
  CHECK(closed.asked(SIGTERM) == Then::kNothing);
  CHECK(closed.asked(SIGTERM) == Then::kEndAtOnce);
}

TEST_CASE("SIGTERM and SIGHUP ask for nothing in a program that was started with them ignored") {
  CHECK(stop_signals() == std::vector<int>{SIGINT, SIGTERM, SIGHUP});
  for (const int ignored : {SIGTERM, SIGHUP}) {
    const auto before = std::signal(ignored, SIG_IGN);
    CHECK(stop_signals() == std::vector<int>{SIGINT, ignored == SIGTERM ? SIGHUP : SIGTERM});
    std::signal(ignored, before);
  }
}

}  // namespace
}  // namespace paceline
