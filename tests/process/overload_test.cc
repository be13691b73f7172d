// Floods of messages that are all of the right form, against a real server over a real socket: who sends them
// without reading what comes back is found before it has cost memory, and the others train on.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>

#include "common/report/run_summary.h"
#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

// Parameters: an answer of a kilobyte, which counts as a small message; many of these fill any buffer.
constexpr std::int64_t kFew = 250;
// Floats of a frame: a megabyte.
constexpr std::int64_t kFrame = 250'000;

// Two nodes of one thread, of which none waits for the other.
RunConfig flooded_config(const testing::TempFolder& folder) {
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 1;
  config.cluster.endpoints = {"ipc://" + (folder / "s0").string()};
  config.cluster.heartbeat = 50ms;
  config.cluster.lease = 20s;  // who is lost here is not lost for its silence
  config.cluster.shared_memory = SharedMemory::kOff;
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.train.total_iterations = 1000;
  config.train.optimizer.lr = 1.0;
  return config;
}

// A run in which node 0 trains, and node 1 does what a test is about.
struct Flooded {
  testing::TempFolder folder;
  RunConfig config = flooded_config(folder);
  wire::Context context;
  std::promise<void> loss;  // of node 1
  bool is_lost = false;     // the same, of the server's thread
  const Log log = Log::to([this](LogLevel, const std::string& text) {
    if (text.find("node 1 lost") != std::string::npos && !std::exchange(is_lost, true)) loss.set_value();
  });
  RunningServer server{config, ShardId(0), context, log};
  ScriptedNode good{context, config.cluster.endpoints};
  ScriptedNode bad{context, config.cluster.endpoints};
  const std::int64_t floats;

  explicit Flooded(std::int64_t parameters = kFew) : floats(parameters) {
    REQUIRE(server.started().is_ok());
    good.send(0, join_of(config, 0, floats));
    good.receive<wire::Welcome>(0);
    for (std::int64_t at = 0; at < floats; at += kFrame) {
      const std::int64_t piece = std::min(kFrame, floats - at);
      good.send(0, wire::InitialParameters{at, at + piece == floats},
                std::vector<float>(static_cast<std::size_t>(piece)));
    }
    bad.send(0, join_of(config, 1, floats));
    bad.receive<wire::Welcome>(0);
    clock = good.receive<wire::Grant>(0).clock;
  }

  // Node 0 computes one iteration: it is answered, whatever node 1 does meanwhile. Of kFew.
  void train_one() {
    const wire::Push push{WorkerId(0, 0), clock, 0, true, 4, Version(0), Revision(0)};
    good.send(0, push, std::vector<float>(kFew, 1));
    wire::StepReport report;
    report.worker = WorkerId(0, 0);
    report.clock = clock;
    report.metric = {1.0, 2, 4};
    good.send(0, report);
    clock = good.receive<wire::Grant>(0).clock;
  }
  // Node 1 asks for parameters: for all of them, or whether they have changed, which they have not before
  // somebody has trained.
  void ask(int times, Revision have) {
    for (int i = 0; i < times; ++i) {
      bad.send(0, wire::Pull{static_cast<std::uint64_t>(i), Version(0), false, have});
    }
  }
  // The server has come to what was too much of what node 1 says.
  void await_loss() { REQUIRE(loss.get_future().wait_for(60s) == std::future_status::ready); }
  // Why node 1 was lost, as the run's summary says: "the test is over" where it was there to the end. Ends
  // the run.
  std::string why_lost() {
    server.server().request_stop("the test has seen enough");
    good.send(0, wire::Leave{"the test is over"});
    bad.send(0, wire::Leave{"the test is over"});
    (void)server.result();
    const auto summary = read_summary(folder.path());
    REQUIRE(summary.is_ok());
    for (const std::string& lost : summary->lost) {
      if (lost.starts_with("node 1: ")) return lost;
    }
    return "node 1 was not lost";
  }

  Clock clock;
};

// What it was sent lies in the system's buffers and its own queue first: the flood is longer than those hold.
constexpr int kFlood = 20'000;

// What server 0 says to somebody it does not know, who says on until he is answered: what is said over a
// connection that is just being broken is lost, and so are the answers that it still held.
std::string answer_to_stranger(ScriptedNode& stranger) {
  for (int i = 0; i < 200; ++i) {
    stranger.send(0, wire::Heartbeat{});
    if (const auto received = stranger.receive_within<wire::Error>(0, 100ms)) return received->message;
  }
  FAIL("a stranger was not answered");
  return {};
}

TEST_CASE("a node that asks, and reads no answer, is lost, and the others train on") {
  Flooded run;
  const auto ask = GENERATE(0, 1);
  for (int i = 0; i < kFlood; ++i) {
    if (ask == 0) {
      run.ask(1, kNoRevision);
    } else {
      wire::StepReport twice;  // an Error that is not fatal: it has gone on already
      twice.worker = WorkerId(1, 0);
      twice.clock = Clock(0);
      twice.metric = {1.0, 2, 4};
      run.bad.send(0, twice);
    }
    if (i == kFlood / 2) run.train_one();
  }
  run.train_one();
  run.await_loss();
  // So many were queued, and no more.
  CHECK_THAT(run.why_lost(), Contains("node 1: it does not read what it is sent: 1043 messages wait for it, "
                                      "expected less than 1043"));
}

TEST_CASE("a node that goes on joining is lost, and its connection broken") {
  Flooded run;
  for (int i = 0; i < 1000; ++i) run.bad.send(0, join_of(run.config, 1, kFew));
  run.train_one();
  // Its next connection is a stranger's.
  CHECK_THAT(answer_to_stranger(run.bad), Contains("has gone") || Contains("before a join"));
  CHECK_THAT(run.why_lost(), Contains("node 1: refused: it went on joining"));
}

TEST_CASE("a stranger that goes on talking has its connection broken, and the others train on") {
  Flooded run;
  ScriptedNode stranger(run.context, run.config.cluster.endpoints);
  for (int i = 0; i < kFlood; ++i) stranger.send(0, wire::Heartbeat{});
  run.train_one();
  CHECK_THAT(answer_to_stranger(stranger), Contains("before a join on this connection"));
  CHECK(run.why_lost() == "node 1: the test is over");
  const auto summary = read_summary(run.folder.path());
  CHECK(summary->malformed >= 256);  // counted, each
}

}  // namespace
}  // namespace paceline::server
