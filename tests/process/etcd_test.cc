// etcd's JSON: what is posted and what its answers mean, from bytes that a real one (3.4) has sent; and where
// one is installed, a real one: the same questions asked of it and of the model that the simulation uses, and
// two replicas of which one is killed.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/ticks.h"
#include "server/replicas/etcd_client.h"
#include "server/replicas/etcd_json.h"
#include "server/replicas/leader_lease.h"
#include "tests/unit/etcd_model.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const Txn kTakeOver{{{"k", Txn::Of::kCreated, 0}, {"r", Txn::Of::kModified, 7}}, {{"k", "v", 5}}, {"k", "r"}};

TEST_CASE("a transaction is posted with base64 keys, and numbers as strings") {
  const EtcdPost post = post_of(kTakeOver);
  CHECK(post.target == "/v3/kv/txn");
  CHECK(json::parse(post.body) == json::parse(R"({
    "compare": [{"key": "aw==", "target": "CREATE", "create_revision": "0", "result": "EQUAL"},
                {"key": "cg==", "target": "MOD", "mod_revision": "7", "result": "EQUAL"}],
    "success": [{"requestPut": {"key": "aw==", "value": "dg==", "lease": "5"}},
                {"requestRange": {"key": "aw=="}}, {"requestRange": {"key": "cg=="}}],
    "failure": [{"requestRange": {"key": "aw=="}}, {"requestRange": {"key": "cg=="}}]})"));
}

TEST_CASE("what an answer leaves out is nothing, zero or false") {
  const auto done = std::get<TxnDone>(*answer_of(kTakeOver, 200, R"({"header":{"revision":"2"},"responses":[
    {"response_range":{"header":{"revision":"2"},"kvs":[{"key":"aw==","create_revision":"2","mod_revision":"3",
     "version":"1","value":"dg==","lease":"2324035570781990407"}],"count":"1"}},
    {"response_range":{"header":{"revision":"2"}}}]})"));
  CHECK(!done.succeeded);
  REQUIRE(done.read.size() == 2);
  REQUIRE(done.read[0]);
  CHECK(done.read[0]->value == "v");
  CHECK(done.read[0]->created == 2);
  CHECK(done.read[0]->modified == 3);
  CHECK(done.read[0]->lease == 2324035570781990407);
  CHECK(!done.read[1]);
  const auto kept = answer_of(KeepAlive{1}, 200, R"({"result":{"header":{"revision":"3"},"ID":"1"}})");
  CHECK(std::get<LeaseKept>(*kept).ttl == 0s);
}

TEST_CASE("where the transaction was carried out what it read stands after what it put") {
  const auto done = std::get<TxnDone>(*answer_of(kTakeOver, 200, R"({"succeeded":true,"responses":[
    {"response_put":{"header":{"revision":"2"}}},{"response_range":{"kvs":[{"value":"dg=="}]}},
    {"response_range":{}}]})"));
  CHECK(done.succeeded);
  REQUIRE(done.read[0]);
  CHECK(done.read[0]->value == "v");
}

TEST_CASE("what is no answer is refused, and says what came") {
  const char* const body =
      GENERATE("", "{", "[]", "null", R"({"succeeded":true})", R"({"responses":{}})",
               R"({"responses":[{"response_range":[]},{}]})",
               R"({"responses":[{"response_range":{"kvs":[{"lease":7}]}},{"response_range":{}}]})",
               R"({"responses":[{"response_range":{"kvs":[{"lease":"7x"}]}},{"response_range":{}}]})");
  const auto answer = answer_of(kTakeOver, 200, body);
  REQUIRE(!answer.is_ok());
  CHECK(answer.status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("what etcd refuses says why") {
  const auto answer =
      answer_of(kTakeOver, 404, R"({"error":"etcdserver: requested lease not found","code":5})");
  CHECK(answer.status().code() == StatusCode::kUnavailable);
  CHECK_THAT(answer.status().message(), Catch::Contains("HTTP 404: etcdserver: requested lease not found"));
  CHECK(answer_of(RevokeLease{1}, 404, "").is_ok());  // it has ended already
  CHECK(!answer_of(KeepAlive{1}, 200, R"({"error":{"message":"etcdserver: no leader"}})").is_ok());
}

// ---- over sockets

class Loop {
 public:
  Result<EtcdAnswer> ask(EtcdClient& client, const EtcdRequest& request,
                         std::chrono::nanoseconds patience = 10s) {
    std::optional<Result<EtcdAnswer>> answer;
    client.ask(request, patience, [&](Result<EtcdAnswer> got) { answer = std::move(got); });
    CHECK(!answer);  // later
    io.restart();
    while (!answer && io.run_one() > 0) {
    }
    REQUIRE(answer);
    return *std::move(answer);
  }
  boost::asio::io_context io;
};

std::string free_port() {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor taken(io, {boost::asio::ip::address_v4::loopback(), 0});
  return std::to_string(taken.local_endpoint().port());
}

TEST_CASE("an endpoint is http://HOST:PORT") {
  const std::string wrong =
      GENERATE("", "127.0.0.1:2379", "https://a:1", "http://a", "http://:1", "http://a:", "http://a:b");
  Loop loop;
  const auto client = EtcdClient::make(loop.io, {"http://a:1", wrong});
  REQUIRE(!client.is_ok());
  CHECK_THAT(client.status().message(), Catch::Contains("got \"" + wrong + "\", expected http://HOST:PORT"));
  CHECK(!EtcdClient::make(loop.io, {}).is_ok());
}

TEST_CASE("nobody there, and one that never answers, are said in time") {
  Loop loop;
  const std::string nobody = "http://127.0.0.1:" + free_port();
  auto client = EtcdClient::make(loop.io, {nobody});
  const auto refused = loop.ask(**client, GrantLease{1s});
  CHECK(refused.status().code() == StatusCode::kUnavailable);
  CHECK_THAT(refused.status().message(), Catch::Contains("cannot be reached"));

  boost::asio::ip::tcp::acceptor silent(loop.io, {boost::asio::ip::address_v4::loopback(), 0});
  client = EtcdClient::make(loop.io, {"http://127.0.0.1:" + std::to_string(silent.local_endpoint().port())});
  const auto late = loop.ask(**client, GrantLease{1s}, 50ms);
  CHECK(late.status().code() == StatusCode::kDeadlineExceeded);
}

// A real etcd of this test's own; ends with it.
class Etcd {
 public:
  static bool installed() { return std::filesystem::exists("/usr/bin/etcd"); }

  Etcd() : folder_(std::filesystem::temp_directory_path() / ("paceline-etcd." + std::to_string(getpid()))) {
    const std::string client = "http://127.0.0.1:" + free_port();
    const std::string peer = "http://127.0.0.1:" + free_port();
    endpoint = client;
    const std::vector<std::string> words{"/usr/bin/etcd",
                                         "--name=m",
                                         "--data-dir=" + folder_.string(),
                                         "--listen-client-urls=" + client,
                                         "--advertise-client-urls=" + client,
                                         "--listen-peer-urls=" + peer,
                                         "--initial-advertise-peer-urls=" + peer,
                                         "--initial-cluster=m=" + peer,
                                         "--logger=zap",
                                         "--log-outputs=/dev/null"};
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execv(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~Etcd() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Etcd(const Etcd&) = delete;

  // Asks until it answers.
  void await(Loop& loop) const {
    auto client = EtcdClient::make(loop.io, {endpoint});
    for (const Ticks until = steady_now() + 60s; steady_now() < until;) {
      if (loop.ask(**client, Txn{{}, {}, {"k"}}, 1s).is_ok()) return;
      boost::asio::steady_timer pause(loop.io, 50ms);
      loop.io.restart();
      pause.async_wait([](const auto&) {});
      loop.io.run();
    }
    FAIL("etcd has not answered within a minute");
  }

  std::string endpoint;

 private:
  const std::filesystem::path folder_;
  pid_t pid_ = -1;
};

TEST_CASE("a real etcd answers as the model does") {
  if (!Etcd::installed()) {
    WARN("skipped: no etcd here (scripts/install_deps.sh --etcd)");
    return;
  }
  Loop loop;
  const Etcd etcd;
  etcd.await(loop);
  // The first one does not answer: the next question goes to the other.
  auto client = EtcdClient::make(loop.io, {"http://127.0.0.1:" + free_port(), etcd.endpoint});
  CHECK(!loop.ask(**client, GrantLease{60s}).is_ok());
  EtcdModel model;
  const Ticks now;
  const auto real_lease = std::get<LeaseGranted>(*loop.ask(**client, GrantLease{60s}));
  const auto lease = std::get<LeaseGranted>(*model.carry_out(GrantLease{60s}, now));
  CHECK(real_lease.ttl == lease.ttl);
  CHECK(std::get<LeaseKept>(*loop.ask(**client, KeepAlive{real_lease.lease})).ttl == 60s);
  CHECK(std::get<LeaseKept>(*loop.ask(**client, KeepAlive{12345})).ttl == 0s);

  std::int64_t real_revision = 0;
  std::int64_t revision = 0;
  const auto both = [&](Txn txn) {
    Txn to_model = txn;
    for (Txn::Put& put : txn.puts) put.lease = put.lease == 0 ? 0 : real_lease.lease;
    for (Txn::Put& put : to_model.puts) put.lease = put.lease == 0 ? 0 : lease.lease;
    for (Txn::Compare& compare : txn.compares) compare.revision = compare.revision == 0 ? 0 : real_revision;
    for (Txn::Compare& compare : to_model.compares) compare.revision = compare.revision == 0 ? 0 : revision;
    const auto real = std::get<TxnDone>(*loop.ask(**client, txn));
    const auto reported = std::get<TxnDone>(*model.carry_out(to_model, now));
    CHECK(real.succeeded == reported.succeeded);
    REQUIRE(real.read.size() == reported.read.size());
    for (std::size_t i = 0; i < real.read.size(); ++i) {
      REQUIRE(real.read[i].has_value() == reported.read[i].has_value());
      if (!real.read[i]) continue;
      CHECK(real.read[i]->value == reported.read[i]->value);
      CHECK((real.read[i]->lease == real_lease.lease) == (reported.read[i]->lease == lease.lease));
      CHECK((real.read[i]->created == real.read[i]->modified) ==
            (reported.read[i]->created == reported.read[i]->modified));
    }
    if (real.read.back()) {
      real_revision = real.read.back()->modified;
      revision = reported.read.back()->modified;
    }
  };
  constexpr std::int64_t kAsRead = 1;  // stands for the revision that was read last
  constexpr auto kCreated = Txn::Of::kCreated;
  constexpr auto kModified = Txn::Of::kModified;
  both({{}, {}, {"p", "r"}});
  both({{{"p", kCreated, 0}, {"r", kModified, 0}}, {{"p", "a", 1}, {"r", "1: a", 0}}, {"p", "r"}});
  both({{{"p", kCreated, 0}, {"r", kModified, kAsRead}},
        {{"p", "b", 1}, {"r", "2: b", 0}},
        {"p", "r"}});  // fails
  both({{{"r", kModified, kAsRead}}, {{"r", "1: a b", 0}}, {"p", "r"}});
  both({{{"r", kModified, 0}}, {{"r", "x", 0}}, {"p", "r"}});  // fails
  CHECK(loop.ask(**client, RevokeLease{real_lease.lease}).is_ok());
  (void)model.carry_out(RevokeLease{lease.lease}, now);
  both({{}, {}, {"p", "r"}});
  CHECK(loop.ask(**client, RevokeLease{real_lease.lease}).is_ok());  // once more
  // Under a lease that is not there nothing is put.
  const auto late = [](std::int64_t under) {
    return Txn{{}, {{"p", "c", under}, {"r", "3: c", 0}}, {"p", "r"}};
  };
  client = EtcdClient::make(loop.io, {etcd.endpoint});
  CHECK(!loop.ask(**client, late(real_lease.lease)).is_ok());
  CHECK(!model.carry_out(late(lease.lease), now).is_ok());
  both({{}, {}, {"p", "r"}});
}

// A replica with its client, driven by its loop.
class Driven {
 public:
  Driven(boost::asio::io_context& io, const Etcd& etcd, LeaderLease::Incarnation self,
         LeaderLease::Start start)
      : leader_lease("run/shard-0", self, start, 8s),
        client_(std::move(EtcdClient::make(io, {etcd.endpoint})).value()),
        timer_(io) {
    drive();
  }
  void stand_still() {
    timer_.cancel();
    stands_ = true;
  }
  LeaderLease leader_lease;

 private:
  void drive() {
    if (stands_) return;
    if (const auto request = leader_lease.next(steady_now())) {
      return client_->ask(*request, leader_lease.patience(), [this](const Result<EtcdAnswer>& answer) {
        leader_lease.answered(answer, steady_now());
        drive();
      });
    }
    timer_.expires_after(20ms);
    timer_.async_wait([this](const auto& error) {
      if (!error) drive();
    });
  }
  std::unique_ptr<EtcdClient> client_;
  boost::asio::steady_timer timer_;
  bool stands_ = false;
};

TEST_CASE("with a real etcd, who is complete takes over from one that stands still, and never two act") {
  if (!Etcd::installed()) {
    WARN("skipped: no etcd here (scripts/install_deps.sh --etcd)");
    return;
  }
  Loop loop;
  const Etcd etcd;
  etcd.await(loop);
  Driven first(loop.io, etcd, 0xa, LeaderLease::Start::kBegins);
  Driven second(loop.io, etcd, 0xb, LeaderLease::Start::kFollows);
  const auto until = [&](const char* what, const auto& holds) {
    INFO(what);
    loop.io.restart();
    bool is_so = holds();
    for (const Ticks end = steady_now() + 120s; !is_so && steady_now() < end; is_so = holds()) {
      loop.io.run_one_for(100ms);
      const Ticks now = steady_now();
      REQUIRE(!(first.leader_lease.acts(now) && second.leader_lease.acts(now)));
    }
    INFO("the first: " << first.leader_lease.describe(steady_now()));
    INFO("the second: " << second.leader_lease.describe(steady_now()));
    REQUIRE(is_so);
  };
  until("the first serves", [&] { return first.leader_lease.acts(steady_now()); });
  first.leader_lease.set_complete({0xa, 0xb});
  // By what the other one reads, so it is written.
  until("both are complete", [&] { return second.leader_lease.was_complete(); });
  first.stand_still();
  until("the second serves", [&] { return second.leader_lease.acts(steady_now()); });
  CHECK(second.leader_lease.term() > first.leader_lease.term());
  CHECK(!first.leader_lease.acts(steady_now()));
}

}  // namespace
}  // namespace paceline::server
