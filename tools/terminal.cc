#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace paceline {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool takes_colour(int fd) {
  return ::isatty(fd) == 1 && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
}

std::size_t columns_of(int fd) {
  winsize size = {};
  return ::isatty(fd) == 1 && ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace paceline
