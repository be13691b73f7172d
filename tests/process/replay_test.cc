// What stale gradients become, exactly: a run over real sockets, without order or lockstep, and a loop over
// plain floats that replays it in the order in which it happened. Each worker's parameters, at each step, and
// the final model are the loop's, bit for bit.
//
// The order is known from outside: a node's messages come to the authority one after another, and with one
// shard a gradient is there before its report. So with one node the reports' order is that of application.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "common/params/staleness.h"
#include "common/random.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kFloats = 37;
constexpr std::uint32_t kThreads = 4;
constexpr std::int64_t kIterations = 240;

using Floats = std::vector<float>;
using Stamp = std::pair<WorkerId, Clock>;

// What happened, as the nodes' messages and the task tell it.
struct Record {
  std::mutex mutex;
  std::vector<wire::StepReport> reports;  // as they came: the order of application
  std::map<Stamp, wire::Grant> grants;
  std::map<Stamp, Floats> computed_with, gradients;
};

// f(w) = sum of a_i (w_i - 1)^2 / 2, looked at through noise. Spins a while, so that nobody is in step.
class NoisyQuadratic final : public Task {
 public:
  NoisyQuadratic(WorkerId worker, Record& record) : worker_(worker), record_(record) {}
  Status load(const Step& step) override {
    step_ = step;
    return Status::ok();
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom&) override {
    CounterRandom random(1, Stream::kTest, worker_.thread, static_cast<std::uint64_t>(step_.clock.value));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto noise = static_cast<float>(0.1 * random.next_normal());
      gradient[i] = (1.0F + 0.1F * static_cast<float>(i)) * (parameters[i] - 1.0F) + noise;
    }
    spin_for(std::chrono::microseconds(random.next_below(200 * (1 + worker_.thread))));
    const std::lock_guard lock(record_.mutex);
    record_.computed_with[{worker_, step_.clock}] = {parameters.begin(), parameters.end()};
    record_.gradients[{worker_, step_.clock}] = {gradient.begin(), gradient.end()};
    return Metric{1.0, 1, 10};
  }
  Result<Metric> evaluate(std::span<const float>) override { return Metric{1.0, 1, 10}; }

 private:
  const WorkerId worker_;
  Record& record_;
  Step step_;
};

class NoisyQuadratics final : public TaskFactory {
 public:
  explicit NoisyQuadratics(Record& record) : record_(record) { REQUIRE(layout_.add("w", {kFloats}).is_ok()); }
  const Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override {
    std::fill(parameters.begin(), parameters.end(), 0.0F);
  }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    return std::unique_ptr<Task>(std::make_unique<NoisyQuadratic>(worker, record_));
  }
  Result<std::unique_ptr<Task>> make_evaluator() override { return make_trainer(WorkerId(0, 0)); }

 private:
  Record& record_;
  Layout layout_;
};

RunConfig config_of(StalenessScaling staleness) {
  RunConfig config;
  config.cluster.threads_per_node = kThreads;
  config.cluster.frame_bytes = 64;  // several blocks
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.train.optimizer.lr = 0.05;
  config.train.optimizer.staleness = staleness;
  config.train.total_iterations = kIterations;
  return config;
}

Floats train(const RunConfig& config, Record& record) {
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<NoisyQuadratics>(record); }, {},
      [&](const wire::Body& message) {
        const std::lock_guard lock(record.mutex);
        if (const auto* report = std::get_if<wire::StepReport>(&message)) record.reports.push_back(*report);
        if (const auto* grant = std::get_if<wire::Grant>(&message)) {
          record.grants[{grant->worker, grant->clock}] = *grant;
        }
      });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  REQUIRE(run->summary.iterations == kIterations);
  return run->model.parameters;
}

void step(Floats& parameters, const Floats& gradient, double rate) {
  const auto rounded = static_cast<float>(rate);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= rounded * gradient[i];
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a_run_of_stale_gradients_is_what_a_plain_loop_makes_of_them_in_the_same_order") {
  const auto staleness = GENERATE(StalenessScaling::kNone, StalenessScaling::kInverse);
  const RunConfig config = config_of(staleness);
  Record record;
  const Floats model = train(config, record);
  REQUIRE(std::ssize(record.reports) == kIterations);

  std::vector<Floats> revisions{Floats(kFloats, 0.0F)};
  std::map<WorkerId, std::int64_t> last;  // staleness
  std::int64_t largest = 0;
  for (const wire::StepReport& report : record.reports) {
    const Stamp stamp{report.worker, report.clock};
    CAPTURE(to_string(report.worker), report.clock.value, revisions.size());
    // It computed with a revision and its own gradients on top, each as its grant had it.
    Floats with = revisions[static_cast<std::size_t>(report.computed_revision.value)];
    for (std::int64_t own = report.clock.value - report.own_updates; own < report.clock.value; ++own) {
      const Stamp before{report.worker, Clock(own)};
      step(with, record.gradients[before], record.grants[before].learning_rate);
    }
    REQUIRE(same_bits(with, record.computed_with[stamp]));
    // Its own step is that which the server's was for its last gradient.
    CHECK(record.grants[stamp].learning_rate == 0.05 / staleness_divisor(staleness, last[report.worker]));

    const std::int64_t missed =
        std::ssize(revisions) - 1 - (report.computed_revision.value + report.own_updates);
    Floats next = revisions.back();
    step(next, record.gradients[stamp],
         staleness == StalenessScaling::kInverse && missed > 1 ? 0.05 / static_cast<double>(missed) : 0.05);
    revisions.push_back(std::move(next));
    last[report.worker] = missed;
    largest = std::max(largest, missed);
  }
  CHECK(same_bits(revisions.back(), model));
  CHECK(largest > 1);  // or nothing was shown
}

}  // namespace paceline::testing
