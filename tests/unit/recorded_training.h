// Simulated training runs that can be looked into: every gradient with what it was computed from and with,
// every decision of the core, and what plain servers would make of both.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/params/vector_ops.h"
#include "simulate/training.h"
#include "simulate/world.h"
#include "tests/unit/optimizer_plain.h"
#include "tests/unit/training_fixture.h"
#include "tests/unit/wrapped_tasks.h"

namespace paceline::test {

struct Read {
  Step step;
  std::vector<float> parameters;
  std::vector<float> gradient;
};

// The network's tasks, one for each worker; what goes in and comes out is kept. Thread: of each worker its own; reads()
// once all have ended.
class RecordingTasks : public testing::WrappedTasks {
 public:
  explicit RecordingTasks(const RunConfig& config)
      : WrappedTasks(testing::network_tasks(config), [this](std::unique_ptr<Task> task, WorkerId) {
          return std::make_unique<Recorder>(std::move(task), reads_, mutex_);
        }) {}
  const std::vector<Read>& reads() const { return reads_; }

 private:
  class Recorder final : public testing::WrappedTask {
   public:
    Recorder(std::unique_ptr<Task> task, std::vector<Read>& reads, std::mutex& mutex)
        : WrappedTask(std::move(task)), reads_(reads), mutex_(mutex) {}
    Status load(const Step& step) override {
      step_ = step;
      return WrappedTask::load(step);
    }
    Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                           const FinalFrom& final_from) override {
      auto metric = WrappedTask::compute(parameters, gradient, final_from);
      const std::lock_guard lock(mutex_);
      reads_.push_back({step_, {parameters.begin(), parameters.end()}, {gradient.begin(), gradient.end()}});
      return metric;
    }

   private:
    std::vector<Read>& reads_;
    std::mutex& mutex_;  // of reads_
    Step step_;
  };
  std::vector<Read> reads_;
  std::mutex mutex_;
};

using Own = std::pair<WorkerId, Clock>;

// What the core granted and decided to apply, and what it was told of the parameters that were computed with.
class Decisions final : public simulate::Watcher {
 public:
  using Used = std::tuple<WorkerId, Clock, Version, Revision, std::int64_t>;
  void before(const sync::Event& event, Ticks now) override {
    if (const auto* step = std::get_if<sync::StepReported>(&event)) {
      used.emplace_back(step->worker, step->clock, step->computed_version, step->computed_revision, now.ns);
    }
    if (const auto* joined = std::get_if<sync::Joined>(&event)) joiners_.insert(joined->worker);
  }
  void after(const std::vector<sync::Action>& actions) override {
    for (const sync::Action& action : actions) {
      if (const auto* apply = std::get_if<sync::Apply>(&action)) applied.push_back(*apply);
      if (const auto* grant = std::get_if<sync::Grant>(&action)) note(*grant);
    }
  }
  // The first stamp of the worker since it joined the last time before it was granted `clock`.
  Clock since(WorkerId worker, Clock clock) const { return *std::prev(began_.at(worker).upper_bound(clock)); }
  // A gradient's share of what its clock is averaged over, as its grant said.
  double share(const Own& own) const {
    const sync::Grant& grant = grants.at(own);
    return static_cast<double>(grant.samples) / static_cast<double>(grant.clock_samples);
  }
  std::vector<sync::Apply> applied;
  std::vector<Used> used;
  std::map<Own, sync::Grant> grants;

 private:
  void note(const sync::Grant& grant) {
    grants[{grant.worker, grant.clock}] = grant;
    if (joiners_.erase(grant.worker) > 0) began_[grant.worker].insert(grant.clock);
  }
  std::set<WorkerId> joiners_;
  std::map<WorkerId, std::set<Clock>> began_;
};

inline simulate::Outcome watched(const RunConfig& config, TaskFactory& tasks, Decisions& decisions) {
  const auto plan = simulate::make_plan(config, nullptr, &tasks.layout());
  REQUIRE(plan);
  const auto training = simulate::Training::begin(*plan, tasks);
  REQUIRE(training);
  simulate::TrainedComputation computation(*plan, **training);
  auto run = simulate::World(*plan, computation, &decisions).run();
  INFO(run.status().message());
  REQUIRE(run);
  return std::move(run).value();
}

// What servers with plain SGD make of the recorded gradients: each state, by revision, and when each gradient
// came into it.
struct PlainServer {
  std::map<Revision, std::vector<float>> states;
  std::map<Own, Revision> contained;  // from this revision on
  std::map<Own, const std::vector<float>*> gradients;
  std::map<Own, std::int64_t> samples;
  testing::PlainOptimizer sgd;

  PlainServer(const RunConfig& config, const TaskFactory& tasks, const std::vector<Read>& reads,
              const std::vector<sync::Apply>& decisions)
      : sgd(config.train.optimizer, static_cast<std::size_t>(tasks.layout().size())) {
    std::vector<float> now(static_cast<std::size_t>(tasks.layout().size()));
    tasks.initialize(now);
    for (const Read& read : reads) {
      gradients[{read.step.worker, read.step.clock}] = &read.gradient;
      samples[{read.step.worker, read.step.clock}] = read.step.batch.samples;
    }
    states[Revision(0)] = now;
    for (const sync::Apply& decision : decisions) {
      const double scale = config.sync.stages.empty() ? 1.0 : config.sync.stages[decision.stage].lr_scale;
      if (decision.combine == CombineMode::kMean && !decision.contributors.empty()) {
        sgd.apply(now, mean(decision.contributors), config.train.optimizer.lr * scale);
      } else {
        for (const sync::Contributor& c : decision.contributors) {
          sgd.apply(now, *gradients.at({c.worker, c.clock}), config.train.optimizer.lr * scale);
        }
      }
      for (const sync::Contributor& c : decision.contributors) {
        contained[{c.worker, c.clock}] = decision.revision_after;
      }
      states[decision.revision_after] = now;
    }
  }

  std::vector<float> mean(const std::vector<sync::Contributor>& contributors) const {
    std::vector<float> sum;
    std::int64_t weight = 0;
    for (const sync::Contributor& c : contributors) {
      const std::vector<float>& gradient = *gradients.at({c.worker, c.clock});
      if (sum.empty()) {
        sum.resize(gradient.size());
        begin_sum(sum, gradient, static_cast<float>(c.weight));
      } else {
        add_weighted(sum, gradient, static_cast<float>(c.weight));
      }
      weight += c.weight;
    }
    scale(sum, static_cast<float>(1.0 / static_cast<double>(weight)));
    return sum;
  }

  // Whether the state of this revision lacks the gradient.
  bool lacks(Revision revision, const Own& gradient) const {
    const auto in = contained.find(gradient);
    return in == contained.end() || in->second > revision;
  }

  // What a worker has that read this revision: with its own gradients that are not in it, each with its share
  // of the `clock_samples` that are averaged, or whole where that is 0.
  std::vector<float> read(const Step& step, double rate, std::int64_t clock_samples, std::int64_t& own) {
    const auto share = [&](const Own& gradient) {
      return clock_samples == 0
                 ? 1.0
                 : static_cast<double>(samples.at(gradient)) / static_cast<double>(clock_samples);
    };
    return read(step, rate, Clock(0), share, own);
  }
  // The same of one whose first stamp since it came is `since`; `share(gradient)` is what an own one counts.
  template <typename Share>
  std::vector<float> read(const Step& step, double rate, Clock since, const Share& share, std::int64_t& own) {
    std::vector<float> parameters = states.at(step.revision);
    for (Clock t = since; t < step.clock; t = t.next()) {
      const Own gradient{step.worker, t};
      if (!lacks(step.revision, gradient)) continue;
      sgd.apply(parameters, *gradients.at(gradient), rate * share(gradient));
      ++own;
    }
    return parameters;
  }
};

}  // namespace paceline::test
