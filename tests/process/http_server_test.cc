// The HTTP endpoint over raw sockets: garbage, many connections, slow readers, and a loop that never waits
// for any of them.
#include "server/http/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <random>
#include <stdexcept>

#include "common/ticks.h"
#include "tests/unit/status_fixture.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using Catch::Contains;

constexpr const char* kGetStatus = "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

struct Endpoint {
  explicit Endpoint(HttpServer::Limits limits = {}, LivePages pages = {}) {
    auto started = HttpServer::start("127.0.0.1:0", std::move(pages), state(), limits);
    REQUIRE(started.is_ok());
    server = std::move(started).value();
  }
  static LiveState state(std::size_t workers = 3) {
    LiveState made{testing::full_status(), steady_now()};
    while (made.status.workers.size() < workers) made.status.workers.push_back(made.status.workers.front());
    return made;
  }
  std::string port() const { return server->address().substr(server->address().rfind(':') + 1); }

  std::unique_ptr<HttpServer> server;
};

// A connection by hand. Every wait ends: what does not come within the system's time-out fails the test.
class Client {
 public:
  explicit Client(const Endpoint& endpoint) : socket_(io_) {
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"),
                     static_cast<unsigned short>(std::stoi(endpoint.port()))});
    const timeval deadline{30, 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
  }
  Client& send(const std::string& text) {
    boost::system::error_code ignored;  // it may have been closed
    boost::asio::write(socket_, boost::asio::buffer(text), ignored);
    return *this;
  }
  void shut_down_sending() {
    boost::system::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
  // All until the other side closes.
  std::string rest() {
    std::string text;
    boost::system::error_code error;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(text), error);
    CHECK(error != boost::asio::error::would_block);
    return text;
  }
  // What comes until `end` has come.
  std::string until(const std::string& end) {
    while (received_.find(end) == std::string::npos) {
      char part[4096];
      const ::ssize_t got = ::recv(socket_.native_handle(), part, sizeof part, 0);
      if (got <= 0) FAIL("closed, or nothing came, before '" << end << "' in: " << received_);
      received_.append(part, static_cast<std::size_t>(got));
    }
    const std::size_t size = received_.find(end) + end.size();
    std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }

 private:
  boost::asio::io_context io_;
  tcp::socket socket_;
  std::string received_;
};

std::string answer_to(const Endpoint& endpoint, const std::string& request) {
  return Client(endpoint).send(request).rest();
}

TEST_CASE("a request is answered, several over one connection, too") {
  const Endpoint endpoint;
  CHECK_THAT(answer_to(endpoint, kGetStatus), Contains("200 OK") && Contains("\"run\":\"my-run\""));
  Client client(endpoint);
  for (int i = 0; i < 3; ++i) {
    client.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    CHECK_THAT(client.until("ok\n"), Contains("200 OK") && Contains("nosniff") && Contains(" GMT\r\n"));
  }
  client.send("HEAD /status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  const std::string head = client.rest();
  CHECK_THAT(head, Contains("Content-Length: ") && !Contains("my-run"));
}

TEST_CASE("what is no HTTP is answered with 400, too large with 431, a body with 413") {
  const Endpoint endpoint;
  for (const char* garbage :
       {"\x01\x02\x03\x04\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /status HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    CHECK_THAT(answer_to(endpoint, garbage), Catch::Matchers::StartsWith("HTTP/1.1 400 "));
  }
  const std::string large = "GET / HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n";
  CHECK_THAT(answer_to(endpoint, large), Catch::Matchers::StartsWith("HTTP/1.1 431 "));
  CHECK_THAT(answer_to(endpoint, "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
             Catch::Matchers::StartsWith("HTTP/1.1 413 "));
  CHECK_THAT(answer_to(endpoint, "DELETE /status HTTP/1.1\r\nConnection: close\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 405 ") && Contains("Allow: GET, HEAD"));
  CHECK_THAT(answer_to(endpoint, kGetStatus), Contains("200 OK"));
}

TEST_CASE("mutated requests end no server") {
  const Endpoint endpoint;
  std::minstd_rand random(7);
  for (int round = 0; round < 300; ++round) {
    std::string request = kGetStatus;
    for (int i = 0; i < 1 + round % 5; ++i) request[random() % request.size()] = static_cast<char>(random());
    request.resize(1 + random() % request.size());
    Client client(endpoint);
    client.send(request);
    client.shut_down_sending();
    client.rest();
  }
  CHECK_THAT(answer_to(endpoint, kGetStatus), Contains("200 OK"));
}

TEST_CASE("a connection that says nothing, or not all, is closed") {
  HttpServer::Limits limits;
  limits.read = 100ms;
  const Endpoint endpoint(limits);
  CHECK(answer_to(endpoint, "").empty());
  CHECK(answer_to(endpoint, "GET /status HTT").empty());
}

TEST_CASE("connections beyond the bound are closed, and there is room again when others have gone") {
  HttpServer::Limits limits;
  limits.connections = 4;
  limits.read = 60s;  // those that are there say nothing while the others come
  const Endpoint endpoint(limits);
  {
    std::vector<std::unique_ptr<Client>> open;
    for (int i = 0; i < 4; ++i) {
      open.push_back(std::make_unique<Client>(endpoint));
      open.back()->send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").until("ok\n");
    }
    for (int i = 0; i < 50; ++i) CHECK(answer_to(endpoint, kGetStatus).empty());
    open.front()->send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").until("ok\n");
  }
  // That they have gone the server learns in its own time.
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (answer_to(endpoint, kGetStatus).empty()) REQUIRE(std::chrono::steady_clock::now() < deadline);
}

TEST_CASE("events follow each other, the newest status each") {
  const Endpoint endpoint;
  Client reader(endpoint);
  reader.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK_THAT(reader.until("\n\n"), Contains("text/event-stream"));
  for (int version = 200; version < 205; ++version) {
    LiveState state = Endpoint::state();
    state.status.version = Version(version);
    endpoint.server->publish(std::move(state));
    while (reader.until("\n\n").find("\"version\":" + std::to_string(version) + ",") == std::string::npos)
      continue;
  }
}

TEST_CASE("the last status reaches who listens before the server ends") {
  Endpoint endpoint;
  Client reader(endpoint);
  reader.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").until("\n\n");
  LiveState state = Endpoint::state();
  state.status.state = "over";
  endpoint.server->publish(std::move(state));
  endpoint.server.reset();
  CHECK_THAT(reader.rest(), Contains("\"state\":\"over\""));
}

// The client asks when it has seen the end of the events, which is when the server is ending.
TEST_CASE("who reads events to their end may ask once more, and then the server ends") {
  LivePages pages;
  pages.data = []() -> Result<std::string> { return std::string("{\"whole\":true}"); };
  Endpoint endpoint({}, std::move(pages));
  Client reader(endpoint);
  reader.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").until("\n\n");
  Client again(endpoint);  // as a browser's that is kept
  auto ended = std::async(std::launch::async, [&] { endpoint.server.reset(); });
  (void)reader.rest();
  again.send("GET /data.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK_THAT(again.rest(), Contains("{\"whole\":true}"));
  CHECK(ended.wait_for(30s) == std::future_status::ready);
}

TEST_CASE("a reader that takes no events is dropped, holds nobody up, and others are served") {
  HttpServer::Limits limits;
  limits.event = 2s;
  limits.connections = 2;
  const Endpoint endpoint(limits);
  Client slow(endpoint);
  slow.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Client good(endpoint);
  good.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").until("\n\n");
  // Events of some 150 kB, so that the system's buffers are soon full.
  const auto publish = [&](int row) {
    LiveState state = Endpoint::state(1000);
    state.status.curve_rows = row;
    endpoint.server->publish(std::move(state));
    while (good.until("\n\n").find("\"curve_rows\":" + std::to_string(row) + ",") == std::string::npos)
      continue;
  };
  // There is room for a third one when it has been dropped.
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  int row = 1000;
  do {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    publish(++row);
  } while (row < 1020 || answer_to(endpoint, kGetStatus).empty());
  publish(999);
  CHECK_THAT(slow.rest(), !Contains("\"curve_rows\":999,"));
}

// The endpoint's thread makes a page until all has been published: a publish() that waited for it would come
// to the end only when the page has given up.
TEST_CASE("publishing waits for nobody, not even where a page is being made") {
  std::promise<void> asked, published;
  std::atomic<bool> in_time = false;
  LivePages pages;
  pages.page = [&, waits_for = published.get_future().share()]() -> Result<std::string> {
    asked.set_value();
    in_time = waits_for.wait_for(30s) == std::future_status::ready;
    return std::string("the page");
  };
  const Endpoint endpoint({}, std::move(pages));
  Client reader(endpoint);
  reader.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  REQUIRE(asked.get_future().wait_for(30s) == std::future_status::ready);
  for (int row = 1; row <= 100; ++row) {
    LiveState state = Endpoint::state();
    state.status.curve_rows = row;
    endpoint.server->publish(std::move(state));
  }
  published.set_value();
  CHECK_THAT(reader.rest(), Contains("the page"));
  CHECK(in_time.load());
  CHECK_THAT(answer_to(endpoint, kGetStatus), Contains("\"curve_rows\":100,"));
}

TEST_CASE("a page whose making fails is one answer, and the next is given") {
  LivePages pages;
  pages.page = []() -> Result<std::string> { throw std::runtime_error("no more memory"); };
  const Endpoint endpoint({}, std::move(pages));
  CHECK_THAT(answer_to(endpoint, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 500 ") && Contains("no more memory"));
  CHECK_THAT(answer_to(endpoint, kGetStatus), Contains("200 OK"));
  CHECK_FALSE(endpoint.server->fault());
}

TEST_CASE("an address that other machines reach is refused where it may not be one") {
  HttpServer::Limits limits;
  limits.this_machine_only = true;
  CHECK_THAT(HttpServer::start("0.0.0.0:0", {}, Endpoint::state(), limits).status().message(),
             Contains("cannot listen on 0.0.0.0:0 (run.http): it is 0.0.0.0, which other machines reach"));
  CHECK(HttpServer::start("127.0.0.1:0", {}, Endpoint::state(), limits).is_ok());
}

TEST_CASE("an address that cannot be had is said, with its reason") {
  const Endpoint first;
  const auto again = HttpServer::start(first.server->address(), {}, Endpoint::state(), {});
  CHECK_THAT(again.status().message(),
             Contains("cannot listen on " + first.server->address() + " (run.http): Address already in use"));
  CHECK_FALSE(HttpServer::start("no.such.host.invalid:80", {}, Endpoint::state(), {}).is_ok());
}

}  // namespace
}  // namespace paceline::server
