#include "common/process/line_writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace paceline {
namespace {

using std::chrono::steady_clock;

// What one write(2) is given: other processes may write into the same pipe, and up to here no text of theirs
// comes in between.
constexpr std::size_t kAtOnceMax = PIPE_BUF;
constexpr std::chrono::seconds kSoon{1};
constexpr const char* kNobodyTakesIt = "nobody takes them";

std::int64_t lines_of(std::string_view text) {
  return std::max<std::int64_t>(std::count(text.begin(), text.end(), '\n'), text.empty() ? 0 : 1);
}

}  // namespace

struct LineWriter::State {
  struct Text {
    std::string text;
    std::uint64_t after = 0;  // what is to be written to `first` before
  };

  State(Descriptor descriptor, std::size_t most, Missing line)
      : to(std::move(descriptor)), bytes_max(most), missing(std::move(line)) {}

  void run();
  void write_out(std::string text);
  std::size_t write_some(std::string_view text, std::string& why) const;
  bool wait_until_written(std::uint64_t number, steady_clock::time_point deadline);

  const Descriptor to;
  const std::size_t bytes_max;
  const Missing missing;

  std::mutex mutex;
  std::condition_variable come;  // for the thread
  std::condition_variable gone;  // for those who flush
  std::deque<Text> waiting;
  std::size_t bytes = 0;           // of `waiting`
  std::int64_t being_written = 0;  // lines
  std::uint64_t given = 0;         // texts, in all
  std::uint64_t done = 0;          // written or dropped, in all
  bool at_once = false;            // something is not to wait for company
  bool ends = false;               // nothing more is given
  bool is_stuck = false;           // a flush was in vain, and nothing was written since
  std::int64_t dropped = 0;        // lines
  std::int64_t reported = 0;       // of these
  std::string why;                 // of the last
  std::shared_ptr<State> first;    // follow()
  bool first_is_stuck = false;     // the thread's: it is not waited for again before it has moved
  bool torn = false;               // the thread's: the last line was cut
};

LineWriter::LineWriter(Descriptor to, std::size_t bytes_max, Missing missing)
    : state_(std::make_shared<State>(std::move(to), bytes_max, std::move(missing))) {
  // No signal is handled on a thread that may be stuck.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([state = state_] { state->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  thread.detach();
}

LineWriter::~LineWriter() {
  bool is_stuck = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    is_stuck = state_->is_stuck;
  }
  state_->come.notify_one();
  if (!is_stuck) (void)flush(kAtEnd);
}

void LineWriter::follow(const LineWriter& first) {
  const std::lock_guard lock(state_->mutex);
  state_->first = first.state_;
}

void LineWriter::write(std::string text, When when) {
  if (text.empty()) return;
  std::uint64_t after = 0;
  if (state_->first) {
    const std::lock_guard lock(state_->first->mutex);
    after = state_->first->given;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->bytes += text.size();
    state_->waiting.push_back({std::move(text), after});
    ++state_->given;
    if (state_->bytes > state_->bytes_max / 4) when = When::kAtOnce;
    if (when == When::kAtOnce) state_->at_once = true;
    while (state_->bytes > state_->bytes_max && state_->waiting.size() > 1) {
      const std::string& oldest = state_->waiting.front().text;
      state_->dropped += lines_of(oldest);
      state_->why = kNobodyTakesIt;
      state_->bytes -= oldest.size();
      state_->waiting.pop_front();
      ++state_->done;
    }
  }
  if (when == When::kAtOnce) state_->come.notify_one();
}

bool LineWriter::flush(std::chrono::milliseconds at_most) const {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(state_->mutex);
    number = state_->given;
    state_->at_once = true;
  }
  state_->come.notify_one();
  const bool is_written = state_->wait_until_written(number, steady_clock::now() + at_most);
  const std::lock_guard lock(state_->mutex);
  state_->is_stuck = !is_written;
  return is_written;
}

LineWriter::Dropped LineWriter::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->dropped, state_->why};
}

LineWriter::Dropped LineWriter::unwritten() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t lines = state_->being_written;
  for (const State::Text& one : state_->waiting) lines += lines_of(one.text);
  return {state_->dropped + lines, lines > 0 ? kNobodyTakesIt : state_->why};
}

bool LineWriter::State::wait_until_written(std::uint64_t number, steady_clock::time_point deadline) {
  std::unique_lock lock(mutex);
  return gone.wait_until(lock, deadline, [&] { return done >= number; });
}

void LineWriter::State::run() {
  for (;;) {
    std::string text;
    std::uint64_t after = 0;
    std::uint64_t taken = 0;
    {
      std::unique_lock lock(mutex);
      come.wait_for(lock, kSoon, [&] { return at_once || ends; });
      if (waiting.empty() && ends) return;
      while (!waiting.empty() && (text.empty() || text.size() + waiting.front().text.size() <= kAtOnceMax)) {
        text += waiting.front().text;
        after = std::max(after, waiting.front().after);
        bytes -= waiting.front().text.size();
        waiting.pop_front();
        ++taken;
      }
      if (waiting.empty()) at_once = false;
      being_written = lines_of(text);
    }
    if (taken == 0) continue;
    if (after > 0) {  // then follow() was before
      const auto patience = first_is_stuck ? std::chrono::milliseconds(0) : kFollowed;
      first_is_stuck = !first->wait_until_written(after, steady_clock::now() + patience);
    }
    write_out(std::move(text));
    {
      const std::lock_guard lock(mutex);
      done += taken;
      being_written = 0;
      is_stuck = false;
    }
    gone.notify_all();
  }
}

// What is missing before `text` is said before it.
void LineWriter::State::write_out(std::string text) {
  std::int64_t unreported = 0;
  std::string reason;
  {
    const std::lock_guard lock(mutex);
    unreported = dropped - reported;
    reason = why;
  }
  std::string before = torn ? "\n" : "";
  if (unreported > 0) before += missing(unreported, reason);
  std::string failed;
  const std::size_t of_before = write_some(before, failed);
  const std::size_t of_text = of_before == before.size() ? write_some(text, failed) : 0;
  if (of_before + of_text > 0) {
    const char last = of_text > 0 ? text[of_text - 1] : before[of_before - 1];
    torn = last != '\n' && !failed.empty();
  }
  const std::lock_guard lock(mutex);
  if (of_before == before.size()) reported += unreported;
  if (failed.empty()) return;
  dropped += lines_of(std::string_view(text).substr(of_text));
  why = failed;
}

// How much of it was written, and why no more.
std::size_t LineWriter::State::write_some(std::string_view text, std::string& failed) const {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t now = ::write(to.get(), text.data() + written, text.size() - written);
    if (now >= 0) {
      written += static_cast<std::size_t>(now);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {  // others have made it so
      pollfd ready = {to.get(), POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      failed = std::strerror(errno);
      break;
    }
  }
  return written;
}

LineStream::Buffer::int_type LineStream::Buffer::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) text_ += traits_type::to_char_type(c);
  end_line();
  return traits_type::not_eof(c);
}

std::streamsize LineStream::Buffer::xsputn(const char* text, std::streamsize size) {
  text_.append(text, static_cast<std::size_t>(size));
  end_line();
  return size;
}

int LineStream::Buffer::sync() {
  writer_.write(std::exchange(text_, {}));
  return 0;
}

void LineStream::Buffer::end_line() {
  if (text_.ends_with('\n')) sync();
}

StandardError::StandardError(const std::string& program)
    : writer_(Descriptor(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)), LineWriter::kBytesToShow,
              [program](std::int64_t lines, const std::string& why) {
                return program + ": " + std::to_string(lines) + (lines == 1 ? " line is" : " lines are") +
                       " missing here: " + why + "\n";
              }) {}

}  // namespace paceline
