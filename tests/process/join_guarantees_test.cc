// The guarantees while a node comes: again, as another process, after it was killed; or late, into a run that
// began without it. Random schedules of every policy, apply mode, shard count, transport and lossless
// encoding. With every gradient counting for itself (counting_task.h), on every read:
//
//   of a worker that was there all the time      own column = its clock, as ever
//   of one that has come                         own column >= what it read first + its iterations since
//   of anybody, about one who was always there   its column >= min(clock - s, all it ever did)
//   of anybody                                   nothing falls
//
// Where deltas leave in fragments, what of a last round is in the next one does not count yet, and what of it a
// process that died had not sent is lost.
//
// and at the end each iteration of the run is applied once, on all shards alike.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/guarantee_checker.h"
#include "tests/process/join_run.h"
#include "tests/process/local_cluster.h"
#include "tests/process/other_process.h"
#include "tests/process/schedules.h"
#include "tests/seeds.h"
#include "tests/unit/temp_folder.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSchedules = 12;
#else
constexpr std::uint64_t kSchedules = 24;
#endif
constexpr int kAtATime = 4;
constexpr float kSlack = 0.1F;  // counts are whole, or of a local step: a quarter

enum class Comes { kAgain, kLate };

// What happens in a run, as its training threads see it. Thread: any.
class JoinChecker {
 public:
  JoinChecker(const RunConfig& config, NodeId joiner)
      : config_(config), cluster_(config.cluster.cluster()), joiner_(joiner), done_(cluster_.workers()) {
    before_.resize(cluster_.workers());
    first_.resize(cluster_.workers());
  }

  void on_read(const Read& read) {
    const std::lock_guard lock(mutex_);
    const Step& step = read.step;
    const std::uint32_t own = cluster_.rank_of(step.worker).value;
    const std::string who = "worker " + to_string(step.worker) + " at clock " + to_string(step.clock);
    const std::int64_t clock = step.clock.value;
    const bool has_come = step.worker.node == joiner_;
    std::vector<float>& before = before_[own];
    if (has_come && before.empty()) first_[own] = {clock, read.counts[own]};
    if (!has_come && done_[own] != clock) report(who + ": its clocks have a gap");
    ++done_[own];
    const float expected = has_come ? first_[own].counts + static_cast<float>(clock - first_[own].clock)
                                    : static_cast<float>(clock);
    for (std::size_t i = own; i < (has_come ? own + 1 : read.counts.size()); i += cluster_.workers()) {
      const float mine = read.counts[i];
      if (mine >= expected - kSlack && (has_come || mine <= expected + kSlack)) continue;
      report(who + ": read-my-writes: has " + std::to_string(mine) + ", expected " +
             std::to_string(expected));
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (read.counts[i] < before[i] - kSlack)
        report(who + ": monotonic: element " + std::to_string(i) + " fell");
    }
    before = read.counts;
    if (step.threshold.is_infinite()) return;
    const std::int64_t due = clock - step.threshold.value();
    for (std::size_t i = 0; i < read.counts.size(); ++i) {
      const auto other = static_cast<std::uint32_t>(i % cluster_.workers());
      if (cluster_.worker_at(Rank(other)).node == joiner_) continue;
      if (read.counts[i] >= static_cast<float>(due) - kSlack) continue;
      const float behind = behind_place(config_, i, read.counts.size());
      if (read.counts[i] < static_cast<float>(due) - behind - kSlack)
        doubts_.push_back({who, other, due, behind, read.counts[i]});
    }
  }

  // The stamps of a worker that has come are none that the process before it was granted.
  std::int64_t first_clock(std::uint32_t rank) const { return first_[rank].clock; }
  bool has_read(std::uint32_t rank) const { return !before_[rank].empty(); }

  // After the run.
  std::vector<std::string> violations() {
    for (const Doubt& doubt : doubts_) {
      const auto all = static_cast<float>(std::min(doubt.due, done_[doubt.other]));
      if (doubt.count >= all - doubt.behind - kSlack) continue;
      report(doubt.who + ": model state: has " + std::to_string(doubt.count) + " gradients of rank " +
             std::to_string(doubt.other) + ", at least " + std::to_string(doubt.due) + " are due");
    }
    return violations_;
  }

 private:
  // To be judged when it is known how much the other one ever did.
  struct Doubt {
    std::string who;
    std::uint32_t other = 0;
    std::int64_t due = 0;
    float behind = 0;  // of that, what may be in the next gradient
    float count = 0;
  };
  struct First {
    std::int64_t clock = 0;
    float counts = 0;
  };
  void report(std::string what) {
    if (violations_.size() < 20) violations_.push_back(std::move(what));
  }

  const RunConfig config_;
  const Cluster cluster_;
  const NodeId joiner_;
  std::mutex mutex_;
  std::vector<std::int64_t> done_;          // by rank: steps begun here
  std::vector<std::vector<float>> before_;  // by rank: its last read
  std::vector<First> first_;
  std::vector<Doubt> doubts_;
  std::vector<std::string> violations_;
};

// Two moments that some wait for and others bring.
class Moment {
 public:
  void comes() {
    const std::lock_guard lock(mutex_);
    here_ = true;
    changed_.notify_all();
  }
  bool await(std::chrono::seconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [this] { return here_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool here_ = false;
};

std::vector<std::string> check_end(const ClusterRun& run, const CrashRun& drawn, Comes how) {
  std::vector<std::string> wrong;
  const auto expect = [&](const char* what, std::int64_t got, std::int64_t expected) {
    if (got != expected)
      wrong.push_back(std::string(what) + ": got " + std::to_string(got) + ", expected " +
                      std::to_string(expected));
  };
  const RunSummary& summary = run.summary;
  expect("iterations", summary.iterations, drawn.config.train.total_iterations);
  expect("lost nodes", summary.lost_nodes, how == Comes::kAgain ? 1 : 0);
  expect("returned nodes", summary.returned_nodes, how == Comes::kAgain ? 1 : 0);
  expect("late nodes", summary.late_nodes, how == Comes::kLate ? 1 : 0);
  const std::size_t workers = drawn.config.cluster.cluster().workers();
  double applied = 0;
  for (std::size_t i = 0; i < run.model.parameters.size(); ++i) {
    const float here = run.model.parameters[i];
    if (i < workers) applied += here;
    // Of a last round that was not known to be the last; of who came again, of its process before, too.
    const float behind = behind_place(drawn.config, i, run.model.parameters.size());
    const float missing = run.model.parameters[i % workers] - here;
    if (missing < -kSlack || missing > 2 * behind + kSlack) wrong.emplace_back("shards differ");
  }
  expect("gradients in the model", std::lround(applied), summary.iterations / drawn.config.train.local_steps);
  for (const Status& server : run.servers) {
    if (!server) wrong.push_back("a server: " + server.message());
  }
  for (const Status& node : run.nodes) {
    if (!node) wrong.push_back("a node that was there all the time: " + node.message());
  }
  return wrong;
}

std::vector<std::string> violations_of(std::uint64_t seed, Comes how) {
  CrashRun drawn = join_run(seed);
  if (how == Comes::kLate) {
    drawn.victim = NodeId(2);
    drawn.config.cluster.nodes_at_start = 2;
  }
  const Cluster cluster = drawn.config.cluster.cluster();
  const TempFolder folder;
  const std::string words_file = (folder / "words").string();
  LastWords words(words_file);
  JoinChecker checker(drawn.config, drawn.victim);
  Moment may_start;
  Moment former_has_died;
  Moment has_come;
  std::vector<std::string> wrong;

  const auto former_begun = [&] {  // as many clocks, by the thread that came furthest
    std::int64_t most = 0;
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) most = std::max(most, words.begun(Rank(r)));
    return most;
  };
  CountingOptions options = counting_options(drawn, seed);
  options.on_read = [&](const Read& read) {
    checker.on_read(read);
    if (read.step.worker.node == drawn.victim) has_come.comes();
  };
  options.before_compute = [&](const Step& step) {
    if (step.worker.node == drawn.victim) return Status::ok();
    if (step.clock.value >= kGate / 2) may_start.comes();
    if (step.clock.value < kGate) return Status::ok();
    // The one that comes begins at a clock that its process before has not begun: where that led, the others
    // follow it so far, or the threshold would hold the comer, who would wait for them.
    bool comes = how == Comes::kLate || former_has_died.await(60s);
    const std::int64_t granted = former_begun() + static_cast<std::int64_t>(drawn.config.exchange.hidden);
    if (comes && how == Comes::kAgain && step.clock.value <= granted) return Status::ok();
    comes = comes && has_come.await(60s);
    return comes ? Status::ok() : deadline_exceeded("node " + to_string(drawn.victim) + " has not come");
  };
  std::thread joiner;
  Status joiners_end;
  const auto run = run_cluster(
      drawn.config,
      [&](NodeId node, const StopNode&) {
        return node == drawn.victim ? nullptr : std::make_unique<CountingFactory>(options);
      },
      [&](const RunConfig& config) {
        joiner = std::thread([&, config] {
          if (how == Comes::kAgain) {
            std::vector<std::string> arguments{"join", std::to_string(seed), words_file};
            arguments.insert(arguments.end(), config.cluster.endpoints.begin(),
                             config.cluster.endpoints.end());
            OtherProcess former(std::move(arguments));
            const int status = former.bury(/*dies=*/false);
            former_has_died.comes();
            if (!WIFSIGNALED(status)) joiners_end = internal_error("the process before did not die");
            if (!WIFSIGNALED(status)) return;
          } else {
            may_start.await(60s);
          }
          wire::Context context;
          Node node(config, drawn.victim, context, std::make_unique<CountingFactory>(options));
          joiners_end = node.run();
        });
      });
  joiner.join();
  if (!joiners_end.is_ok()) wrong.push_back("the node that came: " + joiners_end.message());
  if (run.is_ok()) {
    const std::vector<std::string> at_end = check_end(*run, drawn, how);
    wrong.insert(wrong.end(), at_end.begin(), at_end.end());
  } else {
    wrong.push_back(run.status().message());
  }
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    if (!checker.has_read(r) || cluster.worker_at(Rank(r)).node != drawn.victim) continue;
    if (checker.first_clock(r) < words.begun(Rank(r))) wrong.emplace_back("a stamp was granted twice");
  }
  const std::vector<std::string> seen = checker.violations();
  wrong.insert(wrong.end(), seen.begin(), seen.end());
  for (std::string& what : wrong) {
    what = describe(seed, drawn.config) + ", node " + to_string(drawn.victim) +
           (how == Comes::kAgain ? " comes again: " : " comes late: ") + what;
  }
  return wrong;
}

void require_none(const std::vector<std::string>& violations) {
  for (const std::string& violation : violations) UNSCOPED_INFO(violation);
  REQUIRE(violations.empty());
}

}  // namespace

TEST_CASE("a_node_that_was_killed_and_comes_again_takes_part_and_every_guarantee_holds") {
  require_none(violations_of_all(seeds(kSchedules), kAtATime,
                                 [](std::uint64_t seed) { return violations_of(seed, Comes::kAgain); }));
}

TEST_CASE("a_node_that_comes_late_takes_part_and_every_guarantee_holds") {
  require_none(violations_of_all(seeds(kSchedules), kAtATime,
                                 [](std::uint64_t seed) { return violations_of(seed, Comes::kLate); }));
}

}  // namespace paceline::testing
