// The one file that sees Boost.Beast on the server's side.
#include "server/http/http_server.h"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/http_date.h"
#include "common/ticks.h"
#include "server/http/answers.h"
#include "server/loop/wake.h"

namespace paceline::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Error = boost::system::error_code;

std::string text_of(beast::string_view view) { return {view.data(), view.size()}; }

// How long the last status may take to leave; and where a page reads it, until that has asked for the run's
// files once more, which are complete now.
constexpr std::chrono::milliseconds kLastStatus{500};
constexpr std::chrono::milliseconds kLastPages{2000};

}  // namespace

// Of this file alone. (Impl has members of these types, so their namespace has a name.)
namespace endpoint {

// What the connections share, on the endpoint's thread.
struct Shared {
  HttpServer::Limits limits;
  HttpAnswers answers;
  std::shared_ptr<const LiveState> state;
  std::function<void()> answered_last;  // once it is over: an answer with the page's data has left
  bool over = false;                    // who asks for that now asks for the whole of it
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `ended` is called once, when the connection is closed: whoever keeps it lets go of it.
  Connection(tcp::socket socket, Shared& shared, std::function<void(Connection*)> ended)
      : stream_(std::move(socket)),
        shared_(shared),
        ended_(std::move(ended)),
        buffer_(shared.limits.header_bytes) {}
  Connection(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.limits.header_bytes));
    parser_->body_limit(0);
    stream_.expires_after(shared_.limits.read);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const Error& error, std::size_t) { self->on_read(error); });
  }

  void close() {
    Error ignored;
    stream_.socket().close(ignored);
    if (const auto ended = std::exchange(ended_, nullptr)) ended(this);
  }

  bool reads_events() const { return events_; }

  // What is newest still leaves for a reader of events, and an answer that is on its way, then it is closed.
  void finish() {
    last_ = true;
    if (!writing_) close();
  }

  // To a reader of events: this is the newest.
  void send_event(std::shared_ptr<const std::string> event) {
    if (!events_) return;
    pending_ = std::move(event);
    if (!writing_) write_event();
  }

 private:
  void on_read(const Error& error) {
    if (!error) return answer();
    if (error == http::error::end_of_stream || error == beast::error::timeout) return close();
    if (error.category() != http::make_error_code(http::error::end_of_stream).category()) return close();
    const bool large = error == http::error::header_limit || error == http::error::buffer_overflow;
    const bool body = error == http::error::body_limit || error == http::error::unexpected_body;
    HttpAnswer refused;
    refused.code = large ? 431 : body ? 413 : 400;
    refused.body = std::make_shared<const std::string>(
        large  ? "the header is larger than " + std::to_string(shared_.limits.header_bytes) + " bytes\n"
        : body ? "got a body, expected a request without one\n"
               : "not a request of HTTP/1.1: " + error.message() + "\n");
    send(std::move(refused), 11, /*keep_alive=*/false, /*head=*/false);
  }

  void answer() {
    const auto& request = parser_->get();
    const HttpRequest asked{text_of(request.method_string()), text_of(request.target()),
                            text_of(request[http::field::host])};
    asked_last_ = shared_.over && asked.target.starts_with("/data.json");
    HttpAnswer answer;
    try {
      answer = shared_.answers.to(asked, *shared_.state, steady_now());
    } catch (const std::exception& error) {  // of the libraries that make a page, or no memory
      answer = {};
      answer.code = 500;
      answer.body = std::make_shared<const std::string>(std::string("no answer: ") + error.what() + "\n");
    }
    if (answer.events) return begin_events(std::move(answer));
    send(std::move(answer), request.version(), request.keep_alive(), asked.method == "HEAD");
  }

  template <typename Response>
  void set_fields(Response& response, const HttpAnswer& answer) {
    response.set(http::field::content_type, answer.type);
    response.set(http::field::cache_control, "no-store");
    response.set(http::field::date, http_date(std::chrono::system_clock::now()));
    response.set("X-Content-Type-Options", "nosniff");
    response.set("X-Frame-Options", "DENY");
    if (answer.code == 405) response.set(http::field::allow, "GET, HEAD");
  }

  void send(HttpAnswer answer, unsigned version, bool keep_alive, bool head) {
    body_ = answer.body;
    writing_ = true;
    const auto status = static_cast<http::status>(answer.code);
    const auto done = [self = shared_from_this(), keep_alive](const Error& error, std::size_t) {
      self->body_.reset();
      self->writing_ = false;
      if (!error && self->asked_last_) self->shared_.answered_last();
      if (error || self->last_) return self->close();
      if (!keep_alive) return self->shut_down();
      self->read();
    };
    stream_.expires_after(shared_.limits.answer);
    if (head) {
      auto& response = empty_.emplace(status, version);
      set_fields(response, answer);
      response.content_length(body_->size());
      response.keep_alive(keep_alive);
      serializer_of_empty_.emplace(response);
      return http::async_write_header(stream_, *serializer_of_empty_, done);
    }
    auto& response = response_.emplace(status, version);
    set_fields(response, answer);
    response.body() = {body_->data(), body_->size()};
    response.content_length(body_->size());
    response.keep_alive(keep_alive);
    http::async_write(stream_, response, done);
  }

  // What is unread when a socket is closed makes the system reset the connection, and the other side may lose
  // the answer: so the rest is read, within bounds, until it has seen our end.
  void shut_down() {
    Error ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(shared_.limits.read);
    discard();
  }

  void discard() {
    stream_.async_read_some(asio::buffer(discarded_),
                            [self = shared_from_this()](const Error& error, std::size_t bytes) {
                              self->left_to_discard_ -= std::min(bytes, self->left_to_discard_);
                              if (error || self->left_to_discard_ == 0) return self->close();
                              self->discard();
                            });
  }

  // The head of an answer without an end, then events, as long as the reader takes them.
  void begin_events(HttpAnswer answer) {
    events_ = true;
    pending_ = std::make_shared<const std::string>(
        "HTTP/1.1 200 OK\r\nContent-Type: " + answer.type +
        "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" +
        *answer.body);
    write_event();
  }

  void write_event() {
    writing_ = true;
    body_ = std::exchange(pending_, nullptr);
    stream_.expires_after(shared_.limits.event);
    asio::async_write(stream_, asio::buffer(*body_),
                      [self = shared_from_this()](const Error& error, std::size_t) {
                        self->writing_ = false;
                        if (error) return self->close();
                        if (self->pending_) return self->write_event();
                        if (self->last_) return self->close();
                        self->stream_.expires_never();
                      });
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  std::function<void(Connection*)> ended_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::shared_ptr<const std::string> body_;  // leaving
  std::optional<http::response<http::span_body<const char>>> response_;
  std::optional<http::response<http::empty_body>> empty_;
  std::optional<http::response_serializer<http::empty_body>> serializer_of_empty_;
  std::array<char, 4096> discarded_{};
  std::size_t left_to_discard_ = std::size_t{1} << 20;
  bool events_ = false;
  bool writing_ = false;
  bool last_ = false;
  bool asked_last_ = false;                     // for the page's data, once the run is over
  std::shared_ptr<const std::string> pending_;  // the newest event, after the one that is leaving
};

}  // namespace endpoint

namespace {

// "host:port" with a host by number or name; an IPv6 host in brackets.
Result<tcp::endpoint> resolve(asio::io_context& io, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  Error error;
  const auto found = tcp::resolver(io).resolve(host, address.substr(colon + 1), error);
  if (error) return unavailable("cannot listen on " + address + " (run.http): " + error.message());
  return found.begin()->endpoint();
}

}  // namespace

struct HttpServer::Impl {
  Impl(Limits limits, LivePages pages, LiveState first, bool local)
      : has_page(pages.data != nullptr),
        shared{limits, HttpAnswers(std::move(pages), local),
               std::make_shared<const LiveState>(std::move(first)), [this] { on_answered(); }},
        newest(shared.state),
        acceptor(io),
        pause(io),
        last(io),
        wake(std::make_shared<Wake>(io, [this] { on_published(); })) {}

  Status listen(const std::string& at, const tcp::endpoint& endpoint) {
    Error error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return unavailable("cannot listen on " + at + " (run.http): " + error.message());
    const tcp::endpoint bound = acceptor.local_endpoint(error);
    address = at.substr(0, at.rfind(':') + 1) + std::to_string(bound.port());
    return Status::ok();
  }

  // The thread. What is thrown here ends the endpoint, not the run.
  void run() {
    try {
      io.run();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      fault = error.what();
      has_fault = true;
    }
  }

  void accept() {
    acceptor.async_accept([this](const Error& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || ending) return;
      if (!error) take(std::move(socket));
      // Without descriptors it would fail again at once.
      pause.expires_after(std::chrono::milliseconds(error ? 100 : 0));
      pause.async_wait([this](const Error& stopped) {
        if (!stopped && !ending) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    if (connections.size() >= shared.limits.connections) return;  // closed with the socket
    const auto connection = std::make_shared<endpoint::Connection>(
        std::move(socket), shared, [this](endpoint::Connection* one) { let_go(one); });
    connections.emplace(connection.get(), connection);
    connection->read();
  }

  void let_go(endpoint::Connection* one) {
    connections.erase(one);
    if (ending && connections.empty()) io.stop();
  }

  // All that is left to do is to let the last status leave, and to answer each page that reads it once more.
  void end() {
    shared.over = true;
    const auto now_there = connections;
    for (const auto& [key, connection] : now_there) {
      if (!has_page || !connection->reads_events()) continue;
      ++pages_left;
      connection->finish();
    }
    if (pages_left == 0) return end_connections();
    last.expires_after(kLastPages);
    last.async_wait([this](const Error& stopped) {
      if (!stopped) end_connections();
    });
  }

  void on_answered() {
    if (pages_left == 0 || --pages_left > 0) return;
    last.cancel();
    asio::post(io, [this] { end_connections(); });  // that connection is still at it
  }

  void end_connections() {
    if (ending) return;
    ending = true;
    if (connections.empty()) return io.stop();
    last.expires_after(kLastStatus);
    last.async_wait([this](const Error&) { io.stop(); });
    const auto now_there = connections;
    for (const auto& [key, connection] : now_there) connection->finish();
  }

  void publish(LiveState state) {
    auto made = std::make_shared<const LiveState>(std::move(state));
    {
      const std::lock_guard lock(mutex);
      newest = std::move(made);
    }
    wake->call();
  }

  void on_published() {
    {
      const std::lock_guard lock(mutex);
      shared.state = newest;
    }
    const auto event = std::make_shared<const std::string>(status_event(*shared.state));
    // One that cannot be written to any more ends, and leaves the map.
    const auto now_there = connections;
    for (const auto& [key, connection] : now_there) connection->send_event(event);
  }

  const bool has_page;
  endpoint::Shared shared;  // the thread's
  std::string address;
  std::mutex mutex;
  std::shared_ptr<const LiveState> newest;  // under `mutex`
  std::string fault;                        // under `mutex`: what has ended the thread
  bool has_fault = false;                   // under `mutex`
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::map<endpoint::Connection*, std::shared_ptr<endpoint::Connection>> connections;
  asio::steady_timer last;
  std::size_t pages_left = 0;  // that have yet to ask, once the run is over
  bool ending = false;
  std::shared_ptr<Wake> wake;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& address, LivePages pages,
                                                      LiveState first, Limits limits) {
  try {
    asio::io_context io;
    PACELINE_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, resolve(io, address));
    const bool local = endpoint.address().is_loopback();
    if (limits.this_machine_only && !local) {
      return unavailable("cannot listen on " + address + " (run.http): it is " +
                         endpoint.address().to_string() +
                         ", which other machines reach, expected an address of this machine alone, or "
                         "security.allow_insecure: true");
    }
    auto impl = std::make_unique<Impl>(limits, std::move(pages), std::move(first), local);
    PACELINE_RETURN_IF_ERROR(impl->listen(address, endpoint));
    impl->accept();
    impl->thread = std::thread([of = impl.get()] { of->run(); });
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& error) {  // of the system: no thread, no memory
    return unavailable("cannot listen on " + address + " (run.http): " + error.what());
  }
}

// What was published last is taken before: that handler was posted before.
HttpServer::~HttpServer() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->end(); });
  impl_->thread.join();
  impl_->wake->close();
}

const std::string& HttpServer::address() const { return impl_->address; }

std::optional<std::string> HttpServer::fault() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->has_fault ? std::optional(impl_->fault) : std::nullopt;
}

void HttpServer::publish(LiveState state) { impl_->publish(std::move(state)); }

}  // namespace paceline::server
