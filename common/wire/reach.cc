#include "common/wire/reach.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <charconv>
#include <cstdint>

#include "common/host_port.h"
#include "common/ticks.h"
#include "common/wire/endpoint.h"

namespace paceline::wire {
namespace {

using boost::asio::ip::tcp;
using boost::asio::local::stream_protocol;
using ErrorCode = boost::system::error_code;

Reach reach_of(const ErrorCode& error) {
  namespace errors = boost::system::errc;
  if (!error) return Reach::kAccepted;
  if (error == errors::timed_out) return Reach::kSilent;
  const bool refused = error == errors::connection_refused || error == errors::connection_reset ||
                       error == errors::no_such_file_or_directory;  // of a path
  return refused ? Reach::kRefused : Reach::kUnreachable;
}

Reachability reach_path(const std::string& path) {
  const Ticks began = steady_now();
  ErrorCode error;
  try {
    boost::asio::io_context io;
    // '@' is a name of the kernel's, which begins with a zero.
    const std::string name = path.starts_with("@") ? '\0' + path.substr(1) : path;
    stream_protocol::socket(io).connect(stream_protocol::endpoint(name), error);
  } catch (const boost::system::system_error& failed) {  // a path too long for a socket
    error = failed.code();
  }
  return {reach_of(error), "", error ? error.message() : "", {}, steady_now() - began};
}

}  // namespace

Reachability reach(const std::string& endpoint, std::chrono::milliseconds within) {
  constexpr std::string_view kIpc = "ipc://";
  if (endpoint.starts_with(kIpc)) return reach_path(endpoint.substr(kIpc.size()));
  const Ticks began = steady_now();
  const Result<std::string> resolved = resolve(endpoint);
  const Ticks found = steady_now();
  if (!resolved.is_ok()) return {Reach::kUnknownName, "", resolved.status().message(), found - began, {}};
  const HostPort parts = host_and_port_of_tcp(*resolved);
  std::uint16_t port = 0;
  std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  boost::asio::io_context io;
  ErrorCode result = boost::asio::error::timed_out;
  tcp::socket socket(io);
  ErrorCode no_number;
  const auto address = boost::asio::ip::make_address(parts.host, no_number);
  if (no_number) return {Reach::kUnknownName, "", no_number.message(), found - began, {}};
  socket.async_connect({address, port}, [&](const ErrorCode& error) { result = error; });
  io.run_for(within);
  const Ticks over = steady_now();
  ErrorCode ignored;
  socket.close(ignored);
  return {reach_of(result), parts.host, result ? result.message() : "", found - began, over - found};
}

std::string in_words(const Reachability& reached) {
  const std::string at = reached.address.empty() ? "" : " (" + reached.address + ")";
  switch (reached.how) {
    case Reach::kAccepted:
      return "somebody accepts connections there" + at + " and has not answered";
    case Reach::kRefused:
      return "it refuses the connection" + at + ": no server listens there yet";
    case Reach::kUnreachable:
      return "it cannot be reached" + at + ": " + reached.reason;
    case Reach::kUnknownName:
      return "its name is not known: " + reached.reason;
    case Reach::kSilent:
      return "nothing comes back from it" + at + ": a firewall drops what is sent, or the machine is off";
  }
  return "";
}

}  // namespace paceline::wire
