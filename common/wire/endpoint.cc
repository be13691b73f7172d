// Names to addresses, by the system's resolver.
#include "common/wire/endpoint.h"

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

bool ipc_is_served(const std::string& endpoint) {
  constexpr std::string_view kIpc = "ipc://";
  using boost::asio::local::stream_protocol;
  const std::string path = endpoint.substr(std::min(kIpc.size(), endpoint.size()));
  if (!endpoint.starts_with(kIpc) || path.empty() || path == "*") return false;
  try {
    boost::asio::io_context io;
    boost::system::error_code error;
    stream_protocol::socket(io).connect(stream_protocol::endpoint(path), error);
    return !error;
  } catch (const boost::system::system_error&) {
    return false;  // a path too long for a socket: ZeroMQ's bind will say so
  }
}

}  // namespace paceline::wire
