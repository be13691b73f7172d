// Training mode with nodes that crash, come back or come late: what each of them computes with, from which
// samples, what is in the model, and that nothing of a lost one is left to the one that comes back.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "common/encode/encode.h"
#include "common/files/atomic_file.h"
#include "common/params/partition.h"
#include "tests/unit/recorded_training.h"
#include "tests/unit/training_fixture.h"
#include "worker/client/gradient_encoder.h"
#include "worker/network_task.h"

namespace paceline::test {
namespace {

using simulate::Outcome;
using testing::PlainOptimizer;

ClusterEvent crash_of(std::uint32_t node, int ms) {
  return {std::chrono::milliseconds(ms), node, ClusterEventKind::kCrash};
}
ClusterEvent join_of(std::uint32_t node, int ms) {
  return {std::chrono::milliseconds(ms), node, ClusterEventKind::kJoin};
}

void lease_of_a_second(RunConfig& config) {
  config.cluster.lease = std::chrono::seconds(1);
  config.cluster.heartbeat = std::chrono::milliseconds(100);
}

// What the servers have of the gradients of one worker since it came.
class Sent {
 public:
  Sent(const RunConfig& config, std::int64_t floats)
      : ranges_(partition(floats, config.cluster.shards)),
        encoding_(config.cluster.gradient_encoding),
        encoder_({encoding_, config.cluster.top_k_share.value_or(1.0)}, ranges_,
                 config.cluster.frame_bytes / std::int64_t{sizeof(float)}) {}

  std::vector<float> operator()(const std::vector<float>& gradient) {
    ShardParts whole;
    for (const Range& range : ranges_) whole.push_back(Range{0, range.size()});
    const auto frames = encoder_.encode(gradient, whole);
    std::vector<float> sent(gradient.size());
    for (std::size_t k = 0; k < ranges_.size(); ++k) {
      for (const EncodedFrame& frame : frames[k]) {
        const std::span<float> floats(sent.data() + ranges_[k].begin + frame.offset,
                                      static_cast<std::size_t>(frame.payload.count()));
        REQUIRE(decode(encoding_, frame.payload.bytes(), floats).is_ok());
      }
    }
    return sent;
  }

 private:
  const std::vector<Range> ranges_;
  const Encoding encoding_;
  GradientEncoder encoder_;
};

// BSP with plain SGD in a loop: version v is made of the gradients at version v of those who contribute.
std::vector<float> plain_bsp(const RunConfig& config, const Decisions& decisions) {
  const auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  const auto task = (*tasks)->make_trainer(WorkerId(0, 0));
  REQUIRE(task.is_ok());
  std::vector<float> parameters(static_cast<std::size_t>((*tasks)->layout().size()));
  (*tasks)->initialize(parameters);
  PlainOptimizer sgd(config.train.optimizer, parameters.size());
  std::map<Own, Sent> senders;  // by worker and when it came
  std::vector<float> gradient(parameters.size());
  for (const sync::Apply& decision : decisions.applied) {
    if (decision.contributors.empty()) continue;
    std::vector<float> mean(parameters.size());
    std::int64_t samples = 0;
    for (const sync::Contributor& c : decision.contributors) {
      const sync::Grant& grant = decisions.grants.at({c.worker, c.clock});
      Step step;
      step.iteration = grant.iteration;
      step.batch = {grant.position, grant.samples};
      REQUIRE((*task)->load(step).is_ok());
      REQUIRE((*task)->compute(parameters, gradient, whole_at_the_end).is_ok());
      const Own came{c.worker, decisions.since(c.worker, c.clock)};
      Sent& sender = senders.try_emplace(came, config, std::ssize(parameters)).first->second;
      const bool first = samples == 0;
      const std::vector<float> sent = sender(gradient);
      first ? begin_sum(mean, sent, static_cast<float>(grant.samples))
            : add_weighted(mean, sent, static_cast<float>(grant.samples));
      samples += grant.samples;
    }
    scale(mean, static_cast<float>(1.0 / static_cast<double>(samples)));
    sgd.apply(parameters, mean, config.train.optimizer.lr);
  }
  return parameters;
}

// A white block at a place of its class's own in each picture: so a linear model learns them within seconds.
void mark_classes(const std::filesystem::path& data) {
  constexpr std::size_t kRecord = 1 + 3 * 32 * 32;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    if (entry.path().extension() != ".bin") continue;
    std::string bytes = read_file(entry.path(), 1 << 24).value();
    for (std::size_t at = 0; at + kRecord <= bytes.size(); at += kRecord) {
      const auto label = static_cast<std::size_t>(bytes[at]);
      for (std::size_t row = 0; row < 8; ++row)
        bytes.replace(at + 1 + 32 * row + 3 * label, 3, "\xFF\xFF\xFF");
    }
    REQUIRE(write_file_atomically(entry.path(), bytes).is_ok());
  }
}

}  // namespace

TEST_CASE("under_bsp_with_nodes_that_come_each_position_is_computed_once_and_the_model_is_a_plain_loops") {
  const bool comes_back = GENERATE(false, true);
  const auto encoding = GENERATE(Encoding::kFp32, Encoding::kTopK);
  CAPTURE(comes_back, static_cast<int>(encoding));
  RunConfig config =
      with_policy(training_config(3, 2, 2), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean);
  lease_of_a_second(config);
  config.cluster.gradient_encoding = encoding;
  if (encoding == Encoding::kTopK) config.cluster.top_k_share = 0.1;
  config.train.total_iterations = 6 * 20 + 1;
  config.simulate.events = {join_of(2, 700)};
  if (comes_back) {
    config.simulate.events.push_back(crash_of(1, 1500));
    config.simulate.events.push_back(join_of(1, 3000));
  }
  RecordingTasks tasks(config);
  Decisions decisions;
  const Outcome run = watched(config, tasks, decisions);
  CHECK(run.summary.status == "ok");
  CHECK(run.summary.lost_nodes == (comes_back ? 1 : 0));
  CHECK((run.summary.returned_nodes == run.summary.lost_nodes && run.summary.late_nodes == 1));

  std::map<std::int64_t, int> computed, applied;
  for (const Read& read : tasks.reads()) ++computed[read.step.batch.position];
  for (const sync::Apply& decision : decisions.applied) {
    for (const sync::Contributor& c : decision.contributors) {
      ++applied[decisions.grants.at({c.worker, c.clock}).position];
    }
  }
  REQUIRE(std::ssize(applied) == config.train.total_iterations);
  std::int64_t next = 0;
  for (const auto& [position, times] : applied) {
    CHECK(position == next);
    CHECK(times == 1);
    next += config.train.batch_size;
  }
  if (!comes_back) CHECK(computed == applied);
  CHECK(decisions.since(WorkerId(2, 0), Clock(1000)) > Clock(0));
  CHECK((decisions.since(WorkerId(1, 1), Clock(1000)) > Clock(0)) == comes_back);
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, plain_bsp(config, decisions)));
}

// With local applies: those of a worker that was lost are nobody's, the others' go on, with the shares that
// their clocks have without it.
TEST_CASE("whoever_is_lost_comes_back_or_late_every_read_is_made_of_the_decisions_and_own_gradients") {
  struct Case {
    PolicyKind policy;
    ApplyMode apply;
    CombineMode combine;
    bool comes_back;
    std::optional<std::int64_t> refresh = 1;
  };
  const auto each =
      GENERATE(Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach, false, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach, true, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean, false, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean, true, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach, false},
               Case{PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach, true},
               Case{PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach, true});
  CAPTURE(static_cast<int>(each.policy), static_cast<int>(each.apply), static_cast<int>(each.combine),
          each.comes_back);
  // Under eager application the shards of one read may be of different revisions: one, then.
  const std::uint32_t shards = each.apply == ApplyMode::kEager ? 1 : 2;
  RunConfig config = with_policy(training_config(4, 2, shards), each.policy, each.apply, each.combine);
  lease_of_a_second(config);
  if (each.policy == PolicyKind::kSsp) config.sync.threshold = 3;
  config.sync.refresh_clocks = each.refresh;
  config.simulate.compute.slowdown = {1, 1.5, 2, 1};
  config.simulate.network.server_bandwidth = 200'000;  // answers are on their way for a while
  config.simulate.events = {crash_of(1, 900)};
  if (each.comes_back) {
    config.simulate.events = {join_of(3, 500), crash_of(1, 900), join_of(1, 1700), crash_of(2, 2000),
                              join_of(2, 3500)};
  }
  RecordingTasks tasks(config);
  Decisions decisions;
  const Outcome run = watched(config, tasks, decisions);
  CHECK(run.summary.iterations == config.train.total_iterations);
  CHECK(run.summary.lost_nodes == (each.comes_back ? 2 : 1));

  PlainServer server(config, tasks, tasks.reads(), decisions.applied);
  const auto share = [&](const Own& own) {
    return each.combine == CombineMode::kMean ? decisions.share(own) : 1.0;
  };
  std::int64_t own = 0;         // gradients that were added again
  std::int64_t of_joiners = 0;  // ... by those who came back or late
  std::int64_t wrong = 0;
  for (const Read& read : tasks.reads()) {
    const Step& step = read.step;
    const Clock since = decisions.since(step.worker, step.clock);
    const std::int64_t before = own;
    const auto expected = server.read(step, config.train.optimizer.lr, since, share, own);
    wrong += same_floats(read.parameters, expected) ? 0 : 1;
    if (since > Clock(0)) of_joiners += own - before;
  }
  CHECK(wrong == 0);
  CHECK(own > 0);
  CHECK((of_joiners > 0) == each.comes_back);
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, server.states.rbegin()->second));
}

// Momentum's velocity of the own gradients: with that of the process before, reads would differ.
TEST_CASE("who_comes_back_has_a_local_optimizer_without_a_state") {
  RunConfig config = with_policy(training_config(3, 1), PolicyKind::kSsp);
  lease_of_a_second(config);
  config.sync.threshold = 3;
  config.sync.refresh_clocks.reset();
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  config.train.optimizer.lr = 0.01;
  config.simulate.compute.slowdown = {1, 1.2, 2};
  config.simulate.events = {crash_of(1, 900), join_of(1, 1500)};
  RecordingTasks tasks(config);
  Decisions decisions;
  watched(config, tasks, decisions);

  PlainServer server(config, tasks, tasks.reads(), decisions.applied);
  const auto floats = static_cast<std::size_t>(tasks.layout().size());
  // What each own gradient changed, by an optimizer of this process, or of all processes of its worker.
  const auto largest_error = [&](bool from_nothing) {
    std::map<Own, PlainOptimizer> optimizers;
    std::map<Own, std::vector<float>> changes;
    float largest = 0.0F;
    for (const Read& read : tasks.reads()) {
      const Step& step = read.step;
      const Clock since = decisions.since(step.worker, step.clock);
      std::vector<float> expected = server.states.at(step.revision);
      for (Clock t = since; t < step.clock; t = t.next()) {
        if (!server.lacks(step.revision, {step.worker, t})) continue;
        const std::vector<float>& change = changes.at({step.worker, t});
        for (std::size_t i = 0; i < floats; ++i) expected[i] += change[i];
      }
      for (std::size_t i = 0; i < floats; ++i) {
        largest = std::max(largest, std::fabs(expected[i] - read.parameters[i]));
      }
      const Own process{step.worker, from_nothing ? since : Clock(0)};
      PlainOptimizer& optimizer =
          optimizers.try_emplace(process, config.train.optimizer, floats).first->second;
      std::vector<float>& change = changes[{step.worker, step.clock}];
      change.assign(floats, 0.0F);
      optimizer.apply(change, read.gradient, config.train.optimizer.lr);
    }
    return largest;
  };
  CHECK(decisions.since(WorkerId(1, 0), Clock(1000)) > Clock(0));
  CHECK(largest_error(true) < 1e-6F);  // parameters below 1: sums in another order
  CHECK(largest_error(false) > 1e-4F);
}

TEST_CASE("nodes_that_crash_and_come_back_cost_no_accuracy") {
  const testing::TempFolder folder;
  SyntheticOptions data;
  data.out = folder.path() / "data";
  data.train_samples = 1000;
  data.test_samples = 400;
  REQUIRE(write_synthetic(data).is_ok());
  mark_classes(data.out);
  RunConfig config =
      with_policy(training_config(4, 1), PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean);
  lease_of_a_second(config);
  config.sync.threshold = 3;
  config.data.path = data.out.string();
  config.data.augment = false;
  config.train.layers = {{LayerKind::kFlatten}, {LayerKind::kDense, 10}};
  config.train.optimizer.lr = 0.01;
  config.train.batch_size = 16;
  config.train.total_iterations = 4 * 150;
  config.simulate.compute.cv = 0.3;
  const Outcome whole = trained(config);
  config.simulate.events = {crash_of(1, 2000), join_of(1, 5000), crash_of(2, 8000), join_of(2, 8500)};
  const Outcome with_losses = trained(config);
  CHECK(with_losses.summary.lost_nodes == 2);
  CHECK(with_losses.summary.iterations == whole.summary.iterations);
  REQUIRE((whole.summary.test_accuracy && with_losses.summary.test_accuracy));
  CAPTURE(*whole.summary.test_accuracy, *with_losses.summary.test_accuracy);
  CHECK(*whole.summary.test_accuracy > 0.7);
  // 400 test images: two standard deviations of such an accuracy are 5 points.
  CHECK(std::fabs(*whole.summary.test_accuracy - *with_losses.summary.test_accuracy) < 0.05);
}

}  // namespace paceline::test
