// What stale gradients become, exactly: a run over real sockets, without order or lockstep, and a loop over
// plain floats that replays it in the order in which it happened. Each worker's parameters, at each step, and
// the final model are the loop's, bit for bit.
//
// The order is known from outside: a node's messages come to the authority one after another, and with one
// shard a gradient is there before its report. So with one node the reports' order is that of application.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
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
    const std::uint64_t place = worker_.node.value + worker_.thread;
    CounterRandom random(1, Stream::kTest, place, static_cast<std::uint64_t>(step_.clock.value));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto noise = static_cast<float>(0.1 * random.next_normal());
      gradient[i] = (1.0F + 0.1F * static_cast<float>(i)) * (parameters[i] - 1.0F) + noise;
    }
    spin_for(std::chrono::microseconds(random.next_below(200 * (1 + place))));
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
      [&](const wire::PeerId&, const wire::Body& message) {
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

// Under ASP a grant tells which revision the gradient before it became; a worker's last one has none after
// it. Every order that this leaves open.
std::vector<std::vector<Stamp>> orders(const Record& record) {
  std::vector<std::optional<Stamp>> known(static_cast<std::size_t>(kIterations));
  std::vector<Stamp> open;
  for (const auto& [stamp, gradient] : record.gradients) {
    const auto next = record.grants.find({stamp.first, stamp.second.next()});
    if (next == record.grants.end()) {
      open.push_back(stamp);
    } else {
      known.at(static_cast<std::size_t>(next->second.revision.value - 1)) = stamp;
    }
  }
  std::vector<std::vector<Stamp>> orders;
  do {
    std::vector<Stamp> order;
    auto rest = open.begin();
    for (const auto& stamp : known) order.push_back(stamp ? *stamp : *rest++);
    orders.push_back(std::move(order));
  } while (std::next_permutation(open.begin(), open.end()));
  return orders;
}

void step(Floats& parameters, const Floats& gradient, double rate, double decay = 0.0) {
  const auto rounded = static_cast<float>(rate);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float decayed =
        decay == 0.0 ? gradient[i] : gradient[i] + static_cast<float>(decay) * parameters[i];
    parameters[i] -= rounded * decayed;
  }
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

TEST_CASE("a_run_with_delay_compensation_compares_with_just_what_each_worker_computed_with") {
  const auto kind =
      GENERATE(CompensationKind::kNone, CompensationKind::kConstant, CompensationKind::kAdaptive);
  const double lambda = GENERATE(0.0, 0.3);
  const std::uint32_t shards = GENERATE(1u, 2u);
  const double decay = GENERATE(0.0, 0.01);  // of what is compensated already
  CAPTURE(static_cast<int>(kind), lambda, shards, decay);
  RunConfig config = config_of(StalenessScaling::kNone);
  config.cluster.nodes = 3;
  config.cluster.threads_per_node = 1;
  config.cluster.shards = shards;
  config.train.optimizer.delay_compensation = {kind, lambda, 0.95};
  config.train.optimizer.weight_decay = decay;
  Record record;
  const Floats model = train(config, record);

  bool found = false;
  for (const std::vector<Stamp>& order : orders(record)) {
    Floats now(kFloats, 0.0F), mean_square(kFloats, 0.0F);
    for (const Stamp& stamp : order) {
      Floats compensated = record.gradients[stamp];
      const Floats& with = record.computed_with[stamp];
      for (std::size_t i = 0; i < kFloats && kind != CompensationKind::kNone; ++i) {
        const float g = compensated[i];
        mean_square[i] = 0.95F * mean_square[i] + static_cast<float>(1.0 - 0.95) * (g * g);
        const auto rounded = static_cast<float>(lambda);
        const float factor =
            kind == CompensationKind::kAdaptive ? rounded / std::sqrt(mean_square[i] + 1e-7F) : rounded;
        compensated[i] = g + factor * g * (now[i] - with[i]) * g;
      }
      step(now, compensated, 0.05, decay);
    }
    found = found || same_bits(now, model);
    // Without lambda it is plain asynchronous SGD.
    if (lambda > 0.0 || kind == CompensationKind::kNone) continue;
    Floats plain(kFloats, 0.0F);
    for (const Stamp& stamp : order) step(plain, record.gradients[stamp], 0.05, decay);
    CHECK(same_bits(plain, now));
  }
  CHECK(found);
}

}  // namespace paceline::testing
