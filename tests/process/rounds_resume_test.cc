// Rounds of local steps over real sockets, stopped while one worker lags, and gone on with by new servers and nodes:
// what anybody computed is in the parameters once, and nobody's share is left out.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/params/model_file.h"
#include "common/report/run_summary.h"
#include "server/server.h"
#include "tests/process/counting_task.h"
#include "tests/unit/temp_folder.h"
#include "worker/node.h"

namespace paceline::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr std::int64_t kLocalSteps = 4;
constexpr std::int64_t kRoundsOfEach = 12;
constexpr Clock kStopAt(6);  // of worker 0.0, in the middle of its round, of however many steps that is
constexpr Clock kLagsAt(4);  // worker 1.0, until the stop is known

RunConfig lagging_rounds(const TempFolder& folder) {
  RunConfig config;
  config.run.out = (folder / "run").string();
  config.cluster.nodes = 2;
  config.cluster.shards = 2;
  config.cluster.heartbeat = 50ms;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 2;
  config.exchange.hidden = true;
  config.train.batch_size = 10;  // as the counting model counts
  config.train.local_steps = kLocalSteps;
  config.train.has_inner_optimizer = true;
  config.train.inner_optimizer.lr = 1.0 / kLocalSteps;
  config.train.optimizer.lr = 1.0;
  config.train.total_iterations = 2 * kRoundsOfEach * kLocalSteps;
  config.checkpoint.every_clocks = 2;
  return config;
}

// Where the first session's workers stand: 1.0 begins a round only once 0.0 is two ahead, and that stops the run.
class Lag {
 public:
  Status before_step(const Step& step, const std::function<void()>& stop) {
    std::unique_lock lock(mutex_);
    if (step.worker == WorkerId(0, 0)) {
      leader_ = step.clock;
      moved_.notify_all();
      if (step.clock == kStopAt && step.local_step == step.local_steps / 2) stop();
      return Status::ok();
    }
    if (step.local_step != 0) return Status::ok();
    const bool goes_on = moved_.wait_for(lock, 60s, [&] {
      return stopped_ || (step.clock < kLagsAt && leader_.value >= step.clock.value + 2);
    });
    return goes_on ? Status::ok() : internal_error("the other worker does not get ahead");
  }
  // The authority has the stop in hand.
  void stopped() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    moved_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  Clock leader_{-1};
  bool stopped_ = false;
};

// Servers and nodes of the run in `config.run.out`, to their end; of the first session with a stop in it.
RunSummary session(RunConfig config, bool resume) {
  fs::create_directories(config.run.out);
  config.cluster.endpoints.clear();
  for (const char* shard : {"0", "1"}) {
    config.cluster.endpoints.push_back("ipc://" + config.run.out + (resume ? "-again-" : "-") + shard);
  }
  Lag lag;
  const Log log = Log::to([&lag](LogLevel, const std::string& line) {
    if (line.starts_with("stopping: ")) lag.stopped();
  });
  wire::Context context;
  std::vector<std::unique_ptr<server::Server>> servers;
  for (std::uint32_t k = 0; k < config.cluster.shards; ++k) {
    server::ServerOptions options;
    options.resume = resume;
    servers.push_back(std::make_unique<server::Server>(config, ShardId(k), context, log, options));
    REQUIRE(servers.back()->start().is_ok());
  }
  CountingOptions counting;
  counting.cluster = config.cluster.cluster();
  counting.blocks = 8;
  counting.local_steps = kLocalSteps;
  if (!resume) {
    counting.before_compute = [&](const Step& step) {
      return lag.before_step(step, [&] { servers.front()->request_stop("it is time"); });
    };
  }
  std::vector<std::unique_ptr<Node>> nodes;
  for (std::uint32_t i = 0; i < config.cluster.nodes; ++i) {
    nodes.push_back(
        std::make_unique<Node>(config, NodeId(i), context, std::make_unique<CountingFactory>(counting)));
  }
  std::vector<std::thread> threads;
  for (auto& server : servers) threads.emplace_back([&server] { (void)server->run(); });
  for (auto& node : nodes) threads.emplace_back([&node] { (void)node->run(); });
  for (std::thread& thread : threads) thread.join();
  const auto summary = read_summary(config.run.out);
  REQUIRE(summary.is_ok());
  return *summary;
}

}  // namespace

// Under `each` a worker's column has 1 for each round of it, in all rows: those of the fragment that leaves first, too.
TEST_CASE("in_fragments_what_a_round_had_not_sent_at_a_stop_is_in_the_parameters_once") {
  const TempFolder folder;
  RunConfig config = lagging_rounds(folder);
  config.sync.combine = CombineMode::kEach;
  config.exchange.fragments = 2;
  const RunSummary stopped = session(config, false);
  REQUIRE(stopped.status == "stopped");
  CHECK(stopped.final_version.value > kLagsAt.value + 1);
  // Of a checkpoint in mid-run, as those of the killed are, the workers have what it has.
  const bool goes_back = GENERATE(false, true);
  CAPTURE(goes_back);
  if (goes_back) {
    std::set<fs::path> saved;
    for (const auto& entry : fs::directory_iterator(fs::path(config.run.out) / "checkpoint")) {
      if (fs::exists(entry.path() / "manifest")) saved.insert(entry.path());
    }
    REQUIRE(saved.size() > 1);
    fs::remove_all(*saved.rbegin());
  }
  const RunSummary resumed = session(config, true);
  CHECK((resumed.status == "ok" && resumed.generation == 2));
  CHECK((resumed.resumed_from < stopped.final_version) == goes_back);
  CHECK(resumed.iterations == config.train.total_iterations);
  const auto model = read_model_file(fs::path(config.run.out) / "model.bin");
  REQUIRE(model.is_ok());
  const std::vector<float>& counts = model->parameters;
  CHECK(counts[0] + counts[1] == 2.0F * kRoundsOfEach);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    INFO("element " << i << " is " << counts[i]);
    CHECK(counts[i] == counts[i % 2]);
  }
}

TEST_CASE("with_sizes_by_speed_a_stop_ends_on_a_whole_round_of_all_workers") {
  const TempFolder folder;
  RunConfig config = lagging_rounds(folder);
  config.train.local_balance = BatchSizing::kBySpeed;
  const RunSummary stopped = session(config, false);
  REQUIRE(stopped.status == "stopped");
  CHECK(stopped.final_version > Version(kStopAt.value));
  CHECK(stopped.iterations == 2 * kLocalSteps * stopped.final_version.value);
  const RunSummary resumed = session(config, true);
  CHECK((resumed.status == "ok" && resumed.resumed_from == stopped.final_version));
  CHECK((resumed.iterations == config.train.total_iterations && resumed.iterations_undone == 0));
}

}  // namespace paceline::testing
