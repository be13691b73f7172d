#include "tests/unit/compensation_walk.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "common/random.h"
#include "server/store/backups.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

constexpr int kComputingSteps = 300;
constexpr std::size_t kPushedMax = 3;
using Values = std::vector<float>;

// What a node was sent: the parameters of a revision, and how many of its worker's gradients are in them.
struct SentState {
  Revision revision;
  Values values;
  std::int64_t contains = 0;
};

struct Pushed {
  Revision computed;
  Values with, gradient;
};

struct Computing {
  std::optional<SentState> has;  // what it last took
  std::deque<SentState> sent;    // and has not taken
  std::vector<Pushed> pushed;    // all of its gradients, by clock
  std::int64_t applied = 0;      // the first of them
  std::int64_t held() const { return std::ssize(pushed) - applied; }
};

class ComputingWorkers {
 public:
  explicit ComputingWorkers(std::uint64_t seed)
      : random_(seed, Stream::kTest, 3),
        floats_(1 + static_cast<std::int64_t>(below(3000))),
        settings_(random_settings()),
        shard_(ready_shard(settings_.cluster, floats_, 1.0F, settings_)),
        now_(static_cast<std::size_t>(floats_), 1.0F),
        mean_square_(now_.size()),
        workers_(settings_.cluster.nodes) {}

  CompensationWalk run() {
    for (int i = 0; i < kComputingSteps && walk_.violation.empty(); ++i) {
      const auto node = static_cast<std::uint32_t>(below(workers_.size()));
      const auto what = below(3);
      if (what == 0) send(node);
      if (what == 1) compute(node);
      if (what == 2) decide(node);
    }
    return std::move(walk_);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_.next_below(bound); }
  void fault(const std::string& what) {
    if (walk_.violation.empty()) walk_.violation = what;
  }

  ShardSettings random_settings() {
    ShardSettings settings = settings_of({1 + static_cast<std::uint32_t>(below(4)), 1},
                                         1 + static_cast<std::int64_t>(below(2000)), kPushedMax);
    settings.apply = ApplyMode::kEager;
    settings.optimizer.lr = 0.1;
    settings.optimizer.weight_decay = below(2) == 0 ? 0.01 : 0.0;
    settings.optimizer.delay_compensation.kind =
        below(2) == 0 ? CompensationKind::kConstant : CompensationKind::kAdaptive;
    settings.optimizer.delay_compensation.lambda = 0.5;
    settings.apply_threads = 1 + below(2);
    settings.apply_alone_floats = 0;
    return settings;
  }

  // A pull is answered; as a worker has at most one on its way, and one that it has not looked at.
  void send(std::uint32_t node) {
    Computing& worker = workers_[node];
    if (worker.sent.size() >= 2) return;
    shard_.sent(NodeId(node), shard_.now());
    worker.sent.push_back({shard_.now().revision, now_, worker.applied});
  }

  void step(Values& parameters, const Values& gradient) const {
    const auto rate = static_cast<float>(settings_.optimizer.lr);
    const auto decay = static_cast<float>(settings_.optimizer.weight_decay);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      float g = gradient[i];
      if (decay != 0.0F) g = g + decay * parameters[i];
      parameters[i] = parameters[i] - rate * g;
    }
  }

  void compute(std::uint32_t node) {
    Computing& worker = workers_[node];
    if (worker.held() >= static_cast<std::int64_t>(kPushedMax)) return;
    // The newest that is here, or it goes on with what it has.
    if (!worker.sent.empty() && (!worker.has || below(4) > 0)) {
      worker.has = worker.sent.back();
      worker.sent.clear();
    }
    if (!worker.has) return;
    Pushed pushed{worker.has->revision, worker.has->values, {}};
    for (std::int64_t own = worker.has->contains; own < std::ssize(worker.pushed); ++own) {
      step(pushed.with, worker.pushed[static_cast<std::size_t>(own)].gradient);
      ++walk_.own_on_top;
    }
    for (std::int64_t i = 0; i < floats_; ++i) {
      pushed.gradient.push_back(static_cast<float>(random_.next_normal()));
    }
    wire::Push push = push_of(WorkerId(node, 0), std::ssize(worker.pushed));
    push.computed_revision = pushed.computed;
    const auto arrived = shard_.push(push, payload_of(pushed.gradient));
    if (!arrived.is_ok()) fault(arrived.status().message());
    worker.pushed.push_back(std::move(pushed));
  }

  void decide(std::uint32_t node) {
    Computing& worker = workers_[node];
    if (worker.held() == 0) return;
    const Pushed& pushed = worker.pushed[static_cast<std::size_t>(worker.applied)];
    auto decision = decision_of(sequence_++, {{WorkerId(node, 0), Clock(worker.applied++), 1}}, 0);
    decision.revision_after = Revision(shard_.now().revision.value + 1);
    decision.learning_rate = settings_.optimizer.lr;
    if (const Status applied = shard_.apply(decision); !applied.is_ok()) fault(applied.message());
    if (std::memcmp(now_.data(), pushed.with.data(), now_.size() * sizeof(float)) != 0) ++walk_.compensated;
    step(now_, compensated(pushed));
    ++walk_.decided;
    const Values values = values_of(shard_.now().blocks);
    if (std::memcmp(values.data(), now_.data(), now_.size() * sizeof(float)) != 0) {
      fault("differs from the plain loop after decision " + std::to_string(sequence_ - 1));
    }
    if (shard_.backups() > (kPushedMax + Backups::kNotPushedMax) * workers_.size()) {
      fault(std::to_string(shard_.backups()) + " states are kept for " + std::to_string(workers_.size()) +
            " workers");
    }
  }

  Values compensated(const Pushed& pushed) {
    Values compensated = pushed.gradient;
    const auto lambda = static_cast<float>(settings_.optimizer.delay_compensation.lambda);
    for (std::size_t i = 0; i < compensated.size(); ++i) {
      const float g = pushed.gradient[i];
      float factor = lambda;
      if (settings_.optimizer.delay_compensation.kind == CompensationKind::kAdaptive) {
        mean_square_[i] = 0.95F * mean_square_[i] + static_cast<float>(1.0 - 0.95) * (g * g);
        factor = lambda / std::sqrt(mean_square_[i] + 1e-7F);
      }
      compensated[i] = g + factor * g * (now_[i] - pushed.with[i]) * g;
    }
    return compensated;
  }

  CounterRandom random_;
  const std::int64_t floats_;
  const ShardSettings settings_;
  Shard shard_;
  Values now_, mean_square_;
  std::vector<Computing> workers_;
  std::int64_t sequence_ = 0;
  CompensationWalk walk_;
};

}  // namespace

CompensationWalk walk_compensation(std::uint64_t seed) {
  CompensationWalk walk = ComputingWorkers(seed).run();
  if (!walk.violation.empty()) {
    walk.violation = "compensation, seed " + std::to_string(seed) + ": " + walk.violation;
  }
  return walk;
}

}  // namespace paceline::server
