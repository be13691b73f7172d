#include "common/process/running_threads.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace paceline {

RunningThreads::RunningThreads(std::uint32_t processors, const std::filesystem::path& file)
    : processors_(processors), file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}

std::optional<std::uint32_t> RunningThreads::count() const {
  std::array<char, 128> text;
  const ssize_t bytes = ::pread(file_.get(), text.data(), text.size(), 0);
  if (bytes <= 0) return std::nullopt;
  const char* const end = text.data() + bytes;
  const char* at = text.data();
  for (int field = 0; field < 3; ++field) {
    at = std::find(at, end, ' ');
    if (at == end) return std::nullopt;
    ++at;
  }
  std::uint32_t running = 0;
  const auto read = std::from_chars(at, end, running);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != '/') return std::nullopt;
  if (running == 0) return std::nullopt;  // not even this one
  return running;
}

}  // namespace paceline
