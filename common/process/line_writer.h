// LineWriter: text for a terminal, a pipe or a file that may take it late, or never. Who writes never waits:
// a thread of its own does. What cannot be written is dropped and counted; training is worth more than its
// output.
//
//   write() ──> queue of so many bytes ──> thread ──> write(2)
//
// Beyond them the oldest text goes, so that the last lines, which say how it ended, are kept. Where text
// is missing a line says how much, as soon as anything is written again.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

#include "common/files/descriptor.h"

namespace paceline {

class LineWriter {
 public:
  // That wait, for what people read and for what is kept.
  static constexpr std::size_t kBytesToShow = 64 << 10;
  static constexpr std::size_t kBytesToKeep = 1 << 20;
  // How long the end of a program waits for text that nobody takes.
  static constexpr std::chrono::milliseconds kAtEnd{2000};
  // A writer that others follow holds them up for so long at most.
  static constexpr std::chrono::milliseconds kFollowed{200};

  // The line that stands for `lines` that were dropped. Called on the writer's thread.
  using Missing = std::function<std::string(std::int64_t lines, const std::string& why)>;
  enum class When {
    kSoon,   // with the next text, or within a second
    kAtOnce  // as soon as the thread gets to it
  };

  // Owns `to`. Throws std::system_error where no thread can be had.
  LineWriter(Descriptor to, std::size_t bytes_max, Missing missing);
  // Waits kAtEnd at most for what is still to be written; not where that has been in vain.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;

  // From now on what is written here appears after what was written to `first` before, unless that does not
  // take it. Before other threads write.
  void follow(const LineWriter& first);

  // Whole lines, or text of which no part makes sense alone. Thread: any.
  void write(std::string text, When when = When::kAtOnce);
  // Whether all is written, after waiting for `at_most`. Thread: any.
  bool flush(std::chrono::milliseconds at_most) const;
  // Lines that were dropped, and why the last of them was. Thread: any.
  struct Dropped {
    std::int64_t lines = 0;
    std::string why;
  };
  Dropped dropped() const;
  // With those that nobody has taken yet, of which at the end of a program nothing comes.
  Dropped unwritten() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's, too, which outlives this while a write(2) does not return
};

// What is written to this stream goes to the writer with the end of a line, or a flush. Thread: one.
class LineStream {
 public:
  // `writer` outlives this.
  explicit LineStream(LineWriter& writer) : buffer_(writer), stream_(&buffer_) {}
  ~LineStream() { stream_.flush(); }
  LineStream(const LineStream&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(LineWriter& writer) : writer_(writer) {}

   private:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;
    void end_line();

    LineWriter& writer_;
    std::string text_;
  };

  Buffer buffer_;
  std::ostream stream_;
};

// Standard error of `program`.
class StandardError {
 public:
  explicit StandardError(const std::string& program);
  LineWriter& writer() { return writer_; }
  std::ostream& stream() { return stream_.stream(); }

 private:
  LineWriter writer_;
  LineStream stream_{writer_};
};

}  // namespace paceline
