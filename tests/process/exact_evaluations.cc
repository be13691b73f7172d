// The evaluator takes its time: it goes on only when training is some versions ahead of what it evaluates, so
// that the version waiting after it is fetched long after it has been overtaken.
#include "tests/process/exact_evaluations.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kEvery = 5;
constexpr std::int64_t kVersions = 43;
// What each version adds to an element: exact in 16 bits, and its multiples are not, so that an exact answer
// that is no float32 is seen.
constexpr float kCount = 1.0F + 1.0F / 1024;
constexpr std::int64_t kAhead = 7;  // versions; an evaluation of the current state is then not of a due one

class Evaluations {
 public:
  explicit Evaluations(std::int64_t workers) : workers_(workers) {}

  void on_step() {
    const std::lock_guard lock(mutex_);
    ++steps_;
    stepped_.notify_all();
  }

  void on_parameters(std::span<const float> parameters) {
    std::unique_lock lock(mutex_);
    const auto [least, most] = std::minmax_element(parameters.begin(), parameters.end());
    const auto version = static_cast<std::int64_t>(*most / kCount);
    if (static_cast<float>(version) * kCount != *most) {
      fault("an evaluation saw " + std::to_string(*most) + ", no multiple of " + std::to_string(kCount));
    }
    if (*least != *most) {
      fault("an evaluation saw " + std::to_string(*least) + " and " + std::to_string(*most));
    }
    if (version % kEvery != 0 && version != kVersions) {
      fault("version " + std::to_string(version) + " was evaluated, every " + std::to_string(kEvery) +
            " are due");
    }
    if (version <= last_) {
      fault("version " + std::to_string(version) + " was evaluated after " + std::to_string(last_));
    }
    last_ = version;
    const std::int64_t enough = std::min(version + kAhead, kVersions) * workers_;
    stepped_.wait_for(lock, std::chrono::seconds(20), [&] { return steps_ >= enough; });
  }

  std::string first_fault() {
    const std::lock_guard lock(mutex_);
    if (last_ != kVersions) fault("the last evaluation was of version " + std::to_string(last_));
    return fault_;
  }

 private:
  void fault(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

  const std::int64_t workers_;
  std::mutex mutex_;
  std::condition_variable stepped_;
  std::int64_t steps_ = 0;
  std::int64_t last_ = 0;
  std::string fault_;
};

}  // namespace

std::string violation_of_evaluations(std::uint64_t seed, const EvaluationRun& how) {
  RunConfig config;
  config.run.seed = seed;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  config.cluster.shards = 3;
  if (how.endpoint != nullptr) config.cluster.endpoints = {how.endpoint};
  config.cluster.frame_bytes = 2048;  // large enough to be lent
  config.cluster.shared_memory = how.shared_memory;
  config.cluster.gradient_encoding = config.cluster.parameter_encoding = how.encoding;
  config.train.total_iterations = kVersions * 4;
  config.train.eval_every_clocks = kEvery;
  config.train.batch_size = 10;
  config.train.optimizer.kind = OptimizerKind::kSgd;
  config.train.optimizer.lr = 1.0;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 2;
  config.sync.apply = ApplyMode::kVersioned;
  config.sync.combine = CombineMode::kEach;

  Evaluations evaluations(4);
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.seed = seed;
  options.blocks = how.rows;
  options.gradient_scale = kCount;
  options.before_compute = [&](const Step&) {
    evaluations.on_step();
    return Status::ok();
  };
  options.on_evaluate = [&](std::span<const float> p) { evaluations.on_parameters(p); };
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
  if (!run.is_ok()) return run.status().message();
  if (!run->servers[0]) return "authority: " + run->servers[0].message();
  if ((run->summary.bytes_shared > 0) != (how.shared_memory == SharedMemory::kOn)) {
    return std::to_string(run->summary.bytes_shared) + " bytes were shared";
  }
  return evaluations.first_fault();
}

}  // namespace paceline::testing
