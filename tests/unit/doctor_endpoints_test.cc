// `paceline doctor` and endpoints: those that a server binds, those that it and a node reach, etcd's.
#include <unistd.h>

#include <atomic>
#include <boost/asio/local/stream_protocol.hpp>
#include <thread>

#include "tests/unit/doctor_patient.h"

namespace paceline {
namespace {

std::string this_process() { return "process " + std::to_string(::getpid()) + " ("; }

TEST_CASE("an endpoint that is taken names the process that listens there") {
  Patient p;
  SECTION("tcp") {
    const Listener taken;
    p.set("cluster.endpoints=[\"" + taken.endpoint() + "\"]");
    p.fails_with("endpoint 0",
                 "cannot bind " + taken.endpoint() + ": Address already in use: " + this_process());
  }
  SECTION("ipc") {
    using boost::asio::local::stream_protocol;
    boost::asio::io_context io;
    const stream_protocol::acceptor taken(io, stream_protocol::endpoint(p.endpoint().substr(6)));
    p.fails_with("endpoint 0", "cannot bind " + p.endpoint() + ": Address already in use: " + this_process());
  }
}

TEST_CASE("an endpoint of another machine, or in a folder that is not there, cannot be bound") {
  Patient p;
  SECTION("an address that is reserved for examples (RFC 5737)") {
    p.set("security.allow_insecure=true");
    p.set("cluster.endpoints=[\"tcp://192.0.2.1:5555\"]");
    p.fails_with("endpoint 0", "cannot bind tcp://192.0.2.1:5555");
    CHECK_THAT(p.finding("endpoint 0").advice, Contains("this machine has 127.0.0.1 (lo)"));
  }
  SECTION("no folder") {
    p.set("cluster.endpoints=[\"ipc://" + (p.folder / "absent" / "0").string() + "\"]");
    p.fails_with("endpoint 0", "cannot bind ipc://");
  }
  SECTION("an ordinary file, which stays") {
    std::ofstream(p.folder / "0") << "years of work";
    p.fails_with("endpoint 0", "got an ordinary file");
    CHECK(fs::file_size(p.folder / "0") == 13);
  }
}

// One that nobody serves is left behind by a server that was killed.
TEST_CASE("a socket that nobody serves is no obstacle, and stays where it is") {
  using boost::asio::local::stream_protocol;
  Patient p;
  boost::asio::io_context io;
  {
    const stream_protocol::acceptor left(io, stream_protocol::endpoint(p.endpoint().substr(6)));
  }
  REQUIRE(fs::is_socket(p.folder / "0"));
  CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kOk);
  CHECK(fs::is_socket(p.folder / "0"));
}

// Whoever is let in by a socket that is gone the next moment has said its join to nobody.
TEST_CASE("a node that waits for its server is not let in while the endpoint is looked at") {
  using boost::asio::local::stream_protocol;
  Patient p;
  p.options.shard = 0;
  std::atomic<bool> done = false;
  std::atomic<int> let_in = 0;
  std::thread node([&, at = stream_protocol::endpoint(p.endpoint().substr(6))] {
    while (!done) {
      boost::asio::io_context io;
      boost::system::error_code error;
      stream_protocol::socket(io).connect(at, error);
      if (!error) ++let_in;
    }
  });
  for (int i = 0; i < 20; ++i) CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kOk);
  done = true;
  node.join();
  CHECK(let_in == 0);
}

TEST_CASE("an endpoint that can be bound says who reaches it") {
  Patient p;
  CHECK_THAT(p.finding("endpoint 0").detail, Contains("by processes of this machine only; the path has"));
  p.set("security.allow_insecure=true");
  p.set("cluster.endpoints=[\"tcp://0.0.0.0:" + std::to_string(Listener().acceptor.local_endpoint().port()) +
        "\"]");
  CHECK_THAT(p.finding("endpoint 0").detail, Contains("through every interface: 127.0.0.1 (lo)"));
}

TEST_CASE("an endpoint of several machines that leads to loopback is a warning, to server and node") {
  Patient p;
  (GENERATE(true, false) ? p.options.shard : p.options.node) = 0;
  p.set("security.allow_insecure=true");
  p.set("cluster.shards=2");
  p.set("cluster.endpoints=[\"" + Listener().endpoint() + "\", \"tcp://192.0.2.1:5555\"]");
  const Finding found = p.finding("endpoint 0");
  CHECK(found.verdict == CheckVerdict::kWarning);
  CHECK_THAT(found.detail, EndsWith("leads to 127.0.0.1, where no other machine comes"));
  CHECK_THAT(found.advice, Contains("/etc/hosts") && Contains("this machine has"));
}

TEST_CASE("an IPv6 endpoint is bound, and reached, like any other") {
  Patient p;
  boost::asio::io_context io;
  tcp::acceptor server(io, tcp::endpoint(boost::asio::ip::address_v6::loopback(), 0));
  const std::string at = "tcp://[::1]:" + std::to_string(server.local_endpoint().port());
  p.set("cluster.endpoints=[\"" + at + "\"]");
  p.fails_with("endpoint 0", "cannot bind " + at + ": Address already in use");
  p.options.node = 0;
  CHECK_THAT(p.finding("endpoint 0").detail, StartsWith(at + " (::1, found in"));
  CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kOk);
  server.close();
  p.options.node.reset();
  CHECK_THAT(p.finding("endpoint 0").detail, Contains("by processes of this machine only (::1)"));
}

TEST_CASE(
    "a node reaches its servers: those that are there, those that are not yet, and those that cannot be") {
  Patient p;
  p.options.node = 1;
  SECTION("there") {
    const Listener server;
    p.set("cluster.endpoints=[\"" + server.endpoint() + "\"]");
    CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kOk);
    CHECK_THAT(p.finding("endpoint 0").detail, Contains("answered in") && Contains("found in"));
  }
  SECTION("not yet") {
    std::string endpoint = Listener().endpoint();
    p.set("cluster.endpoints=[\"" + endpoint + "\"]");
    CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kWarning);
    CHECK_THAT(p.finding("endpoint 0").detail, Contains("nobody listens there yet (127.0.0.1, found in"));
    std::ostringstream out;
    std::ostringstream err;
    CHECK(doctor(p.options, out, err) == 0);  // it is for before a run
  }
  SECTION("a path that nobody serves yet") {
    CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kWarning);
  }
  SECTION("a path that cannot be") {
    p.set("cluster.endpoints=[\"ipc://" + (p.folder / "absent" / "0").string() + "\"]");
    p.fails_with("endpoint 0", "there is no folder");
  }
  SECTION("a host that cannot be: a name's part has 63 bytes at most") {
    const std::string host(64, 'x');
    p.set("security.allow_insecure=true");
    p.set("cluster.endpoints=[\"tcp://" + host + ":5555\"]");
    p.fails_with("endpoint 0", "host " + host + ": ");
  }
}

TEST_CASE("another server looks at the authority's endpoint as a node does, and binds its own") {
  Patient p;
  p.options.shard = 1;
  p.set("cluster.shards=2");
  p.set("cluster.endpoints=[\"" + p.endpoint() + "\", \"ipc://" + (p.folder / "1").string() + "\"]");
  CHECK(p.finding("endpoint 0").verdict == CheckVerdict::kWarning);
  CHECK(p.finding("endpoint 1").verdict == CheckVerdict::kOk);
}

TEST_CASE("a second replica binds its own endpoint, reaches the others, and has a run directory of its own") {
  Patient p;
  p.options.shard = 1;
  p.options.replica = 1;
  p.set("cluster.shards=2");
  p.set("cluster.replicas=2");
  const Listener etcd;
  p.set("cluster.etcd=[\"http" + etcd.endpoint().substr(3) + "\"]");
  const Listener taken;
  const auto ipc = [&](const std::string& name) { return "\"ipc://" + (p.folder / name).string() + "\""; };
  p.set("cluster.endpoints=[" + ipc("0.0") + ", " + ipc("1.0") + ", " + ipc("0.1") + ", \"" +
        taken.endpoint() + "\"]");
  for (const char* other : {"endpoint 0", "endpoint 1", "endpoint 2"}) {
    CHECK_THAT(p.finding(other).detail, Contains("no process of this machine serves that path"));
  }
  p.fails_with("endpoint 3", "Address already in use");
  p.set("cluster.endpoints=[" + ipc("0.0") + ", " + ipc("1.0") + ", " + ipc("0.1") + ", " + ipc("1.1") + "]");
  const std::string second = p.out().string() + ".replica1";
  fs::create_directories(second);
  std::ofstream(second + "/server-1.log") << "a run";
  p.fails_with("run directory", second);
  p.options.replica = 0;
  CHECK(p.finding("run directory").verdict == CheckVerdict::kOk);
  CHECK_THAT(p.finding("endpoint 1").detail, Contains("can be bound"));
  CHECK_THAT(p.finding("endpoint 3").detail, Contains("no process of this machine serves that path"));
}

TEST_CASE("a server with replicas reaches etcd, or has no run") {
  Patient p;
  p.options.shard = 0;
  p.set("cluster.replicas=2");
  p.set("cluster.endpoints=[\"" + p.endpoint() + "\", \"ipc://" + (p.folder / "1").string() + "\"]");
  const Listener etcd;
  std::string nobody = Listener().endpoint();
  const auto http = [](const std::string& endpoint) { return "http" + endpoint.substr(3); };
  p.set("cluster.etcd=[\"" + http(etcd.endpoint()) + "\", \"" + http(nobody) + "\"]");
  CHECK(p.finding("etcd 0").verdict == CheckVerdict::kOk);
  p.fails_with("etcd 1", "nobody listens there");
  CHECK_THAT(p.finding("etcd 1").advice, Contains("correct cluster.etcd"));
}

}  // namespace
}  // namespace paceline
