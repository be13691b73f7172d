#include "server/run/ended_programs.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/read_until.hpp>
#include <charconv>
#include <system_error>

namespace paceline::server {
namespace {

constexpr std::size_t kLineMax = 256;

}  // namespace

Status EndedPrograms::open(int descriptor) {
  boost::system::error_code error;
  descriptor_.assign(descriptor, error);
  if (error) {
    return invalid_argument("command line: --ended-programs: got descriptor " + std::to_string(descriptor) +
                            ": " + error.message() + ", expected a pipe's end");
  }
  read();
  return Status::ok();
}

void EndedPrograms::read() {
  boost::asio::async_read_until(
      descriptor_, boost::asio::dynamic_buffer(text_, kLineMax), '\n',
      [this](const boost::system::error_code& error, std::size_t size) {
        if (error == boost::asio::error::eof || error == boost::asio::error::operation_aborted)
          return;  // *this may have gone
        const std::string line = error ? text_ : text_.substr(0, size - 1);
        if (error || !take(line)) {
          log_.warn("--ended-programs: got \"" + line +
                    "\", expected a line as \"1 status 3\"; nothing more is read there");
          return;
        }
        text_.erase(0, size);
        read();
      });
}

bool EndedPrograms::take(const std::string& line) {
  std::uint32_t node = 0;
  const char* const end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, node);
  if (error != std::errc() || node >= nodes_ || end - after < 2 || *after != ' ') return false;
  ended_(NodeId(node), std::string(after + 1, end));
  return true;
}

}  // namespace paceline::server
