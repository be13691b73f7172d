// A node whose servers are lost, from its first session to its last, against a scripted server over a real
// socket.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <memory_resource>
#include <mutex>

#include "common/config/load.h"
#include "common/wire/segment_sizes.h"
#include "tests/unit/pins.h"
#include "tests/unit/recording_vectors.h"
#include "tests/unit/scripted_server.h"
#include "tests/unit/sharing_pair.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/worker_fixture.h"
#include "worker/node.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::payload_of;
using testing::ScriptedServer;
using testing::wire_grant_of;

// Where a server is to be missed.
constexpr Duration kMissedAfter = 3s;

// What a test gives a node's tasks.
struct TaskParts {
  // A trainer's vectors; empty: it has none of its own.
  std::function<Result<std::unique_ptr<CacheVectors>>()> vectors;
  std::shared_ptr<std::pmr::memory_resource> gradients;   // where they are to lie; null: in what is given
  std::shared_ptr<std::pmr::memory_resource> parameters;  // of the process cache; null: the heap
  wire::Pin pin;                                          // of servers' memory; empty: there is no device
  std::int64_t floats = 2;
  std::shared_ptr<std::atomic<int>> trainers = std::make_shared<std::atomic<int>>(0);  // that were made
  std::function<Status()> on_trainer;  // called ahead of making one; empty: nothing is
  std::function<void()> on_load;       // called in each making of a mini-batch, and
  std::function<void()> on_compute;    // in each gradient; empty: nothing is
  std::string computes_on;
  std::string warning;  // of the making of a trainer; empty: there is none
};

// Trainers whose gradient is 1 everywhere.
class OnesTasks final : public TaskFactory {
 public:
  explicit OnesTasks(TaskParts parts = {}) : parts_(std::move(parts)) {
    PACELINE_ASSERT(layout_.add("w", {parts_.floats}).is_ok(), "layout");
  }
  const Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override { std::ranges::fill(parameters, 0.5F); }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId) override {
    if (parts_.on_trainer) PACELINE_RETURN_IF_ERROR(parts_.on_trainer());
    auto task = std::make_unique<testing::ScriptedTask>();
    if (parts_.vectors) task->vectors = parts_.vectors();
    if (!parts_.warning.empty()) warn_(parts_.warning);
    if (parts_.on_load) task->on_load = parts_.on_load;
    if (parts_.on_compute) task->on_compute = [this](std::span<float>) { parts_.on_compute(); };
    ++*parts_.trainers;
    return std::unique_ptr<Task>(std::move(task));
  }
  void warn_to(std::function<void(const std::string&)> warn) override { warn_ = std::move(warn); }
  std::string computes_on(std::uint32_t) const override { return parts_.computes_on; }
  std::shared_ptr<std::pmr::memory_resource> gradient_memory(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return parts_.gradients != nullptr ? parts_.gradients : upstream;
  }
  std::shared_ptr<std::pmr::memory_resource> parameter_memory() override { return parts_.parameters; }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override {
    if (!parts_.pin) return std::shared_ptr<void>();
    auto pinned = parts_.pin(pages);
    if (pinned == nullptr) return resource_exhausted("no more pages may be locked");
    return pinned;
  }
  Result<std::unique_ptr<Task>> make_evaluator() override {
    return std::unique_ptr<Task>(std::make_unique<testing::ScriptedTask>());
  }

 private:
  const TaskParts parts_;
  std::function<void(const std::string&)> warn_;
  Layout layout_;
};

struct Run {
  testing::TempFolder folder;
  wire::Context context;
  RunConfig config;
  TaskParts parts;
  Log log;
  std::unique_ptr<ScriptedServer> server;
  std::unique_ptr<Node> node;
  std::future<Status> ended;

  Run() {
    config.cluster.endpoints = {"ipc://" + (folder / "0").string()};
    config.cluster.heartbeat = 10ms;
    config.cluster.lease = 20s;  // the server says nothing by itself
    config.cluster.reconnect_timeout = 20s;
    config.cluster.shared_memory = SharedMemory::kOff;
    config.train.batch_size = 2;
    server = std::make_unique<ScriptedServer>(context, config.cluster.endpoints[0]);
  }
  void begin() {
    node = std::make_unique<Node>(config, NodeId(0), context, std::make_unique<OnesTasks>(parts), log);
    ended = std::async(std::launch::async, [this] { return node->run(); });
  }
  // A Join, which is answered by a server of that generation. One of a node that only lost its connection, as
  // it must think at first, is sent away as a server does.
  wire::Join welcome(std::uint64_t generation) {
    auto join = server->expect<wire::Join>();
    while (join && join->goes_on != 0) {
      CHECK(join->goes_on < generation);
      server->send(wire::Error{StatusCode::kFailedPrecondition,
                               "node 0 would go on with generation 1 of the run", true});
      join = server->expect<wire::Join>();
    }
    REQUIRE(join);
    server->send(wire::Welcome{ShardId(0), {0, parts.floats}, generation, generation > 1});
    return *join;
  }
  // An iteration's begin, from its grant to its parameters. The pull by which these came.
  wire::Pull begin_iteration(std::int64_t clock, const wire::Payload& parameters = payload_of({7, 7})) {
    wire::Grant grant = wire_grant_of(clock, Threshold(0), clock);
    grant.samples = 2;
    server->send(grant);
    const auto pull = server->expect_next<wire::Pull>();
    REQUIRE(pull);
    server->send(
        wire::Parameters{pull->request, ShardId(0), Version(clock), Revision(clock), 0, true, {Clock(clock)}},
        parameters);
    return *pull;
  }
  // All of it, to its report.
  wire::Pull iterate(std::int64_t clock, const wire::Payload& parameters = payload_of({7, 7})) {
    const wire::Pull pull = begin_iteration(clock, parameters);
    const auto push = server->expect_next<wire::Push>();
    REQUIRE(push);
    CHECK(push->clock == Clock(clock));
    CHECK(push->computed_version == Version(clock));
    REQUIRE(server->expect_next<wire::StepReport>());
    return pull;
  }
  // The first session, with an iteration in it.
  wire::Join train_once() {
    begin();
    const wire::Join join = welcome(1);
    REQUIRE(server->expect_next<wire::InitialParameters>());
    iterate(0);
    return join;
  }
  wire::NodeReport finish() {
    server->send(wire::FinishWorker{WorkerId(0, 0), "share done", {}});
    const auto report = server->expect<wire::NodeReport>();
    REQUIRE(report);
    server->send(wire::RunOver{});
    return *report;
  }
};

TEST_CASE("a node whose server is gone goes on with the next one, with nothing of what it had but its sums") {
  Run run;
  run.config.cluster.lease = kMissedAfter;
  const wire::Join first = run.train_once();
  run.server.reset();
  run.server = std::make_unique<ScriptedServer>(run.context, run.config.cluster.endpoints[0]);
  const wire::Join again = run.welcome(2);
  CHECK((first.last_generation == 0 && again.last_generation == 1));
  CHECK(again.incarnation == first.incarnation);
  CHECK(run.iterate(0).have == kNoRevision);  // and no initial parameters before it
  const wire::NodeReport report = run.finish();
  CHECK(report.workers.at(0).iterations == 2);
  CHECK(report.parameter_reads == 2);
  const PhaseTotals& phases = report.workers[0].phases;
  CHECK(phases[Phase::kComputeGrads].count == 2);
  CHECK(phases[Phase::kPsApplyGrads].count == 1);  // the first was for nothing
  CHECK(phases.wall_ns < std::chrono::nanoseconds(run.config.cluster.lease).count());
  CHECK(run.ended.get().is_ok());
}

TEST_CASE("a node outlives its servers again and again, also where it emulates a cluster") {
  Run run;
  const std::filesystem::path out = run.folder / "run";
  const bool emulates = GENERATE(true, false);
  if (emulates) {
    run.config.run.out = out.string();
    run.config.emulate.base_step = 20ms;
  }
  run.train_once();
  for (const std::uint64_t generation : {2U, 3U, 4U}) {
    run.server->send(wire::RunOver{StatusCode::kUnavailable, "server shard 1 lost", true});
    CHECK(run.welcome(generation).last_generation == generation - 1);
    run.iterate(3);
  }
  CHECK(run.finish().workers.at(0).iterations == 4);
  CHECK(run.ended.get().is_ok());
  // Nothing is left of what nodes emulate it with.
  CHECK(std::filesystem::exists(out) == emulates);
  if (emulates) CHECK(std::filesystem::is_empty(out));
}

// As with a GPU that hangs, or a loader's file system: nobody else knows what this node waits for.
TEST_CASE("what takes a thread much longer than usual is told of in the log, and that it is over") {
  const bool loads = GENERATE(true, false);
  const bool stopped = loads;  // two of the four, since each takes seconds
  const std::string what = loads ? "the mini-batch of clock 1" : "the gradient of clock 1";
  std::promise<void> received, over;
  std::atomic<bool> is_notified{false};
  int times = 0;
  Run run;
  run.parts.computes_on = "GPU 1";
  (loads ? run.parts.on_load : run.parts.on_compute) = [&] {
    if (++times < 2) return;
    if (stopped) run.node->request_stop("stopped by a signal");
    received.get_future().wait_for(20s);
  };
  run.log = Log::to([&](LogLevel, const std::string& text) {
    const bool reports =
        text.ends_with(": worker 0.0 " + (loads ? "loads " + what : "computes " + what + " on GPU 1"));
    if (reports && !is_notified.exchange(true)) received.set_value();
    if (text.starts_with("over after ") && text.ends_with(what + " of worker 0.0")) over.set_value();
  });
  run.train_once();
  stopped ? run.begin_iteration(1) : run.iterate(1);
  CHECK(over.get_future().wait_for(20s) == std::future_status::ready);
  CHECK(is_notified);
  if (!stopped) run.finish();
  const Status ended = run.ended.get();
  CHECK(ended.message() == (stopped ? "stopped by a signal" : ""));
}

TEST_CASE("what tasks warn of is in the node's log") {
  std::atomic<int> warned{0};
  Run run;
  run.parts.warning = "GPU 0: slower than it should be";
  run.log = Log::to([&](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarn && text == "GPU 0: slower than it should be") ++warned;
  });
  run.train_once();
  run.finish();
  CHECK(run.ended.get().is_ok());
  CHECK(warned == 1);
}

// A library may take long to begin with, and others would wait for this node.
TEST_CASE("a node joins when all its threads have what they train with") {
  Run run;
  run.config.cluster.threads_per_node = 3;
  run.begin();
  REQUIRE(run.server->expect<wire::Join>());
  CHECK(*run.parts.trainers == 3);
  run.node->request_stop("enough");
  CHECK_FALSE(run.ended.get().is_ok());
}

TEST_CASE("a thread cache lies in the memory that its task has for it") {
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  Run run;
  run.parts.vectors = [&] {
    return std::unique_ptr<CacheVectors>(std::make_unique<testing::RecordingVectors>(recorded));
  };
  run.train_once();
  run.finish();
  CHECK(run.ended.get().is_ok());
  CHECK(recorded->passes == std::vector<std::string>{"take 0 + 2"});
}

// A memory that is as good as any, and counts what is taken from it.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::atomic<std::size_t> bytes{0};

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    bytes += size;
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void* at, std::size_t size, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(at, size, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

TEST_CASE("gradients lie in the memory that the tasks have for them") {
  const auto memory = std::make_shared<CountedMemory>();
  Run run;
  run.parts.gradients = memory;
  run.train_once();
  run.finish();
  CHECK(run.ended.get().is_ok());
  CHECK(memory->bytes == 2 * sizeof(float));  // one iteration, one gradient
}

TEST_CASE("parameters that are decoded lie in the memory that the tasks have for them") {
  const auto memory = std::make_shared<CountedMemory>();
  Run run;
  run.parts.parameters = memory;
  run.config.cluster.parameter_encoding = Encoding::kBf16;
  run.begin();
  run.welcome(1);
  REQUIRE(run.server->expect_next<wire::InitialParameters>());
  wire::Payload encoded = payload_of({1.0F});  // two of bfloat16
  encoded.encoding = Encoding::kBf16;
  encoded.encoded_floats = 2;
  run.iterate(0, encoded);
  run.finish();
  CHECK(run.ended.get().is_ok());
  CHECK(memory->bytes >= 2 * sizeof(float));
}

TEST_CASE(
    "what servers of the machine have written is pinned by the tasks while it is mapped, or it is said") {
  wire::Pins pins;
  pins.fail = GENERATE(false, true);
  std::mutex mutex;
  std::vector<std::string> reported;
  std::atomic<int> alive{0};
  {
    Run run;
    run.parts.floats = 4096;
    run.parts.pin = pins.pin();
    run.config.cluster.shared_memory = SharedMemory::kOn;
    run.log = Log::to([&](LogLevel level, const std::string& text) {
      const std::lock_guard lock(mutex);
      if (level == LogLevel::kWarn) reported.push_back(text);
    });
    const auto memory = wire::segment(wire::parameter_segment_bytes(run.parts.floats));
    run.server.reset();
    run.server = std::make_unique<ScriptedServer>(run.context, run.config.cluster.endpoints[0], memory);
    run.begin();
    run.welcome(1);
    REQUIRE(run.server->expect_next<wire::InitialParameters>());
    CHECK(pins.asked.empty());
    run.iterate(0, wire::in(memory, 7, alive, 4096));
    run.finish();
    CHECK(run.ended.get().is_ok());
    CHECK(pins.asked.size() == 1);
    CHECK(pins.asked[0].size() >= 4096 * sizeof(float));
  }
  CHECK(pins.held == 0);
  const std::string once =
      "servers' memory cannot be pinned, and parameters take longer to the GPU: no more pages may be locked";
  CHECK(reported == (pins.fail ? std::vector{once} : std::vector<std::string>()));
}

TEST_CASE("a node whose task cannot have the memory of a thread cache ends, and says why") {
  Run run;
  run.parts.vectors = [] { return unavailable("of 80 GB none is free"); };
  run.begin();
  run.welcome(1);
  CHECK(run.ended.get().message() == "worker 0.0: of 80 GB none is free");
}

TEST_CASE("a node that cannot train joins, so that its servers are told why") {
  Run run;
  run.parts.on_trainer = [] { return resource_exhausted("GPU 0: cudaMalloc: out of memory"); };
  run.begin();
  run.welcome(1);
  const auto leave = run.server->expect<wire::Leave>();
  REQUIRE(leave);
  CHECK_THAT(leave->fault, Catch::Contains("cudaMalloc: out of memory"));
  CHECK(run.ended.get().message() == "worker 0.0: GPU 0: cudaMalloc: out of memory");
}

TEST_CASE("why a node cannot train is what it ends with, also where its servers are missing") {
  Run run;
  run.server.reset();
  run.config.cluster.start_timeout = 200ms;
  run.parts.on_trainer = [] { return resource_exhausted("GPU 0: cudaMalloc: out of memory"); };
  run.begin();
  CHECK(run.ended.get().message() == "worker 0.0: GPU 0: cudaMalloc: out of memory");
}

TEST_CASE("a node that is stopped while its threads make what they train with joins nobody") {
  Run run;
  run.config.cluster.threads_per_node = 2;
  run.parts.on_trainer = [&run] {
    run.node->request_stop("stopped by a signal");
    return Status::ok();
  };
  run.node =
      std::make_unique<Node>(run.config, NodeId(0), run.context, std::make_unique<OnesTasks>(run.parts));
  CHECK(run.node->run().message() == "stopped by a signal");
  run.node.reset();  // and with it the thread that would still join
  // After whatever that has sent comes another node's.
  run.parts.on_trainer = {};
  run.config.run.seed += 1;
  run.begin();
  const auto join = run.server->expect_next<wire::Join>();
  REQUIRE(join);
  CHECK(join->config_fingerprint == fingerprint(run.config));
  run.node->request_stop("enough");
  CHECK_FALSE(run.ended.get().is_ok());
}

TEST_CASE("without a reconnect_timeout a node ends with its server") {
  Run run;
  run.config.cluster.lease = kMissedAfter;
  run.config.cluster.reconnect_timeout = 0ns;
  run.train_once();
  CHECK_THAT(run.ended.get().message(), Catch::Matches(R"(server shard 0 \(.*\) silent for \d+\.\d s)"));
}

TEST_CASE("a node whose servers do not come back says who is missing, for how long, and what was before") {
  Run run;
  run.config.cluster.lease = kMissedAfter;
  run.config.cluster.reconnect_timeout = 300ms;
  run.train_once();
  run.server.reset();
  const Status ended = run.ended.get();
  CHECK(ended.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(ended.message(),
             Catch::Matches(R"(server shard 0 \(ipc://.*/0\) did not let node 0 join again within 1 s )"
                            R"(\(cluster\.reconnect_timeout\); before: server shard 0 \(ipc://.*/0\) )"
                            R"(silent for \d+\.\d s)"));
}

TEST_CASE("a node that its server took for lost meanwhile ends when it learns that") {
  Run run;
  run.config.cluster.lease = kMissedAfter;
  run.train_once();  // and nothing more is heard of the server
  REQUIRE(run.server->expect<wire::Leave>());
  REQUIRE(run.server->expect<wire::Join>());
  run.server->send(wire::Error{StatusCode::kFailedPrecondition, "node 0: it has gone", true});
  CHECK_THAT(run.ended.get().message(),
             Catch::Contains("refuses us: node 0: it has gone; before: ") && Catch::Contains("silent for"));
}

TEST_CASE("a stop is obeyed while the servers are gone, and before the first session") {
  const bool before = GENERATE(true, false);
  Run run;
  run.config.cluster.lease = kMissedAfter;
  if (before) {
    run.node = std::make_unique<Node>(run.config, NodeId(0), run.context, std::make_unique<OnesTasks>());
    run.node->request_stop("stopped by a signal");
    CHECK(run.node->run().message() == "stopped by a signal");
    return;
  }
  run.train_once();
  REQUIRE(run.server->expect<wire::Leave>());
  run.server.reset();
  run.node->request_stop("stopped by a signal");
  CHECK(run.ended.get().message() == "stopped by a signal");
}

}  // namespace
}  // namespace paceline
