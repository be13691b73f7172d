// The one file of the tools that sees Boost.Beast.
#include "tools/http_get.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <utility>

#include "common/http_date.h"

namespace paceline {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using HttpError = boost::system::error_code;

constexpr std::uint64_t kAnswerBytesMax = std::uint64_t{8} << 20;
constexpr int kHttpVersion = 11;

using Answer = http::response<http::string_body>;

// One with status 200.
Result<Answer> ask(const std::string& address, const std::string& target, std::chrono::milliseconds timeout) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return invalid_argument("got " + address + ", expected host:port, as in run.http");
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);

  asio::io_context io;
  HttpError error;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, address.substr(colon + 1), error);
  if (error) return not_found(address + ": " + error.message());
  beast::tcp_stream stream(io);
  // Each step in turn: the first error is what `error` says.
  const auto wait_for = [&](auto&& begin) {
    stream.expires_after(timeout);
    begin();
    io.restart();
    io.run();
    return !error;
  };
  const auto note = [&](const HttpError& failure, auto&&...) { error = failure; };

  http::request<http::empty_body> request(http::verb::get, target, kHttpVersion);
  request.set(http::field::host, address);
  request.set(http::field::user_agent, "paceline");
  http::response_parser<http::string_body> parser;
  parser.body_limit(kAnswerBytesMax);
  beast::flat_buffer buffer;
  if (!wait_for([&] { stream.async_connect(found, note); }) ||
      !wait_for([&] { http::async_write(stream, request, note); }) ||
      !wait_for([&] { http::async_read(stream, buffer, parser, note); })) {
    const bool is_http = error.category() != http::make_error_code(http::error::end_of_stream).category() ||
                         error == http::error::end_of_stream;
    namespace ways = boost::asio::error;
    const bool gone = error == ways::connection_refused || error == ways::connection_reset ||
                      error == ways::broken_pipe || error == http::error::end_of_stream ||
                      error == http::error::partial_message;
    if (gone) return unavailable(address + ": " + error.message());
    return is_http ? deadline_exceeded(address + ": " + error.message())
                   : data_loss(address + ": its answer is not HTTP that can be read: " + error.message());
  }
  const Answer& answer = parser.get();
  if (answer.result() == http::status::ok) return parser.release();
  const std::string failure = address + target + ": " + std::to_string(answer.result_int()) + ", " +
                              answer.body().substr(0, answer.body().find('\n'));
  return answer.result() == http::status::not_found ? not_found(failure) : failed_precondition(failure);
}

}  // namespace

Result<std::string> http_get(const std::string& address, const std::string& target,
                             std::chrono::milliseconds timeout) {
  PACELINE_ASSIGN_OR_RETURN(Answer answer, ask(address, target, timeout));
  return std::move(answer.body());
}

Result<std::chrono::system_clock::time_point> http_date_of(const std::string& address,
                                                           const std::string& target,
                                                           std::chrono::milliseconds timeout) {
  PACELINE_ASSIGN_OR_RETURN(const Answer answer, ask(address, target, timeout));
  const std::string date(answer[http::field::date]);
  const auto at = parse_http_date(date);
  if (at) return *at;
  return data_loss(address + ": got the date '" + date + "', expected one as HTTP writes it");
}

}  // namespace paceline
