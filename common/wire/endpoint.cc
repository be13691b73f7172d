// Names to addresses, by the system's resolver.
#include "common/wire/endpoint.h"

#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <string_view>

namespace paceline::wire {

Result<std::string> resolve_for_bind(const std::string& endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon <= kTcp.size()) {
    return invalid_argument("got " + endpoint + ", expected tcp://host:port or ipc://path");
  }
  const std::string host = endpoint.substr(kTcp.size(), colon - kTcp.size());
  boost::asio::io_context io;
  boost::system::error_code error;
  const auto found = boost::asio::ip::tcp::resolver(io).resolve(boost::asio::ip::tcp::v4(), host, "", error);
  if (error) return unavailable("host " + host + ": " + error.message());
  return std::string(kTcp) + found.begin()->endpoint().address().to_string() + endpoint.substr(colon);
}

namespace {

bool is_served(const std::string& path) {
  using boost::asio::local::stream_protocol;
  try {
    boost::asio::io_context io;
    boost::system::error_code error;
    stream_protocol::socket(io).connect(stream_protocol::endpoint(path), error);
    return !error;
  } catch (const boost::system::system_error&) {
    return false;  // a path too long for a socket: ZeroMQ's bind will say so
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISREG(mode)) return "an ordinary file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device or a pipe";
}

}  // namespace

Status check_ipc_path(const std::string& endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  const std::string path = endpoint.substr(std::min(kIpc.size(), endpoint.size()));
  // '*' lets ZeroMQ choose a path; '@' is no path but a name of the kernel's.
  if (!endpoint.starts_with(kIpc) || path.empty() || path == "*") return Status::ok();
  struct stat about = {};
  if (path[0] != '@' && lstat(path.c_str(), &about) == 0 && !S_ISSOCK(about.st_mode)) {
    return invalid_argument("cannot bind " + endpoint + ": got " + kind_of(about.st_mode) + " at " + path +
                            ", expected a socket or nothing there");
  }
  return is_served(path) ? unavailable("cannot bind " + endpoint + ": Address already in use") : Status::ok();
}

}  // namespace paceline::wire
