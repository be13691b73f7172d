// Names to addresses, by the system's resolver.
#include "common/wire/endpoint.h"

#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <string_view>

#include "common/host_port.h"

namespace paceline::wire {

Result<std::string> resolve(const std::string& endpoint) {
  using boost::asio::ip::tcp;
  const HostPort parts = host_and_port_of_tcp(endpoint);
  if (parts.host.empty() || parts.port.empty()) {
    return invalid_argument("got " + endpoint + ", expected tcp://host:port or ipc://path");
  }
  boost::asio::io_context io;
  tcp::resolver resolver(io);
  boost::system::error_code error;
  auto found = resolver.resolve(tcp::v4(), parts.host, "", error);
  if (error) {
    boost::system::error_code neither;
    found = resolver.resolve(tcp::v6(), parts.host, "", neither);
    if (neither) return unavailable("host " + parts.host + ": " + error.message());
  }
  const auto address = found.begin()->endpoint().address();
  const std::string host = address.is_v6() ? "[" + address.to_string() + "]" : address.to_string();
  return "tcp://" + host + ":" + parts.port;
}

bool needs_ipv6(const std::string& endpoint) {
  const HostPort parts = host_and_port_of_tcp(endpoint);
  if (parts.brackets || parts.host.empty()) return parts.brackets;
  boost::system::error_code no_number;
  boost::asio::ip::make_address_v4(parts.host, no_number);
  if (!no_number) return false;
  const Result<std::string> resolved = resolve(endpoint);
  return resolved.is_ok() && host_and_port_of_tcp(*resolved).brackets;
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
