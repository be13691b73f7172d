// What the worker's tests share: slices made by hand, a clock that only the test moves, a task that counts,
// and an exchange without a network.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/task/task.h"
#include "common/wire/messages.h"
#include "worker/cache/process_cache.h"
#include "worker/emulate/pace.h"
#include "worker/exchange/coordinator.h"
#include "worker/exchange/exchange.h"

namespace paceline::testing {

inline Payload payload_of(std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  return {owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size() * sizeof(float)};
}

// A slice in one frame. Revision and version are the same number unless said otherwise.
inline std::shared_ptr<Slice> slice_of(Range range, std::int64_t version, std::vector<Clock> applied,
                                       std::vector<float> values, std::optional<std::int64_t> revision = {}) {
  return std::make_shared<Slice>(
      Slice{range,
            {Version(version), Revision(revision.value_or(version)), std::move(applied)},
            {{0, payload_of(std::move(values))}}});
}

// Time that passes only when the test says so; waiting takes no time but moves it.
class ManualTime final : public PaceClock {
 public:
  Ticks now() override { return now_; }
  void wait_until(Ticks due) override { now_ = std::max(now_, due); }
  void pass(std::chrono::nanoseconds d) { now_ = now_ + d; }

 private:
  Ticks now_{1'000'000'000};
};

// Gradient 1 everywhere, loss 0.5 a sample; remembers its steps. Both calls can be made to do something
// first.
class ScriptedTask final : public Task {
 public:
  std::function<void()> on_load = [] {};
  std::function<void(std::span<float> gradient)> on_compute = [](std::span<float>) {};
  // Instead, for a gradient that is final in parts.
  std::function<void(std::span<float> gradient, const FinalFrom& final_from)> on_backward;
  std::vector<Step> steps;
  std::vector<std::vector<float>> computed_with;
  double loss_sum = 1.0;
  Status outcome = Status::ok();                                                    // of compute()
  Result<std::unique_ptr<CacheVectors>> vectors = std::unique_ptr<CacheVectors>();  // are handed out

  Result<std::unique_ptr<CacheVectors>> make_cache_vectors(const OptimizerSection&, std::int64_t) override {
    return std::move(vectors);
  }
  Status load(const Step& step) override {
    on_load();
    steps.push_back(step);
    return Status::ok();
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    computed_with.emplace_back(parameters.begin(), parameters.end());
    std::fill(gradient.begin(), gradient.end(), 1.0F);
    on_compute(gradient);
    if (on_backward) on_backward(gradient, final_from);
    if (!outcome.is_ok()) return outcome;
    return Metric{loss_sum, 1, 2};
  }
  Result<Metric> evaluate(std::span<const float>) override { return failed_precondition("not here"); }
};

// The servers' side as a script: instructions in their order, and what a request for parameters brings.
class FakeExchange final : public Coordinator, public Exchange {
 public:
  FakeExchange(ProcessCache& cache, ManualTime& time) : cache_(cache), time_(time) {}

  // Called before an instruction is handed out, and while parameters are waited for: where a test lets time
  // pass.
  std::function<void()> before_instruction = [] {};
  std::function<void()> while_awaiting = [] {};
  std::function<void()> after_installing = [] {};  // the waiting thread still copies
  std::function<void()> on_report = [] {};
  // The newest snapshot the servers have; what a request brings. Null: the shard has nothing newer.
  std::function<std::vector<std::shared_ptr<Slice>>(Version min_version)> serve;

  std::chrono::nanoseconds held_for{0};  // what every grant says
  ReportTime report_time;                // what every instruction says

  std::vector<Contribution> pushed;
  std::vector<std::int64_t> pushed_from;  // what was reconfigured early: where it began
  std::vector<Clock> withdrawn;
  EarlyPush early;  // what every push is said to have hidden
  std::vector<RoundReport> reported;
  std::vector<Version> requested;
  std::vector<std::size_t> requested_at_push;              // how many requests each push found made
  std::optional<std::chrono::nanoseconds> arrives_before;  // an instruction, before it is taken

  bool finishes_early = false;  // Finished is here before the parameters asked for ahead of the last push are

  ApplyMode apply = ApplyMode::kVersioned;  // of every grant

  void grant(step::Grant grant) { instructions_.push_back(Granted{std::move(grant), {}}); }
  void finish() { instructions_.push_back(Finished{"share done", {}, {}}); }

  Result<Instruction> next_instruction(std::uint32_t) override {
    before_instruction();
    if (instructions_.empty()) return aborted("the script is over");
    Instruction next = instructions_.front();
    instructions_.pop_front();
    if (auto* const granted = std::get_if<Granted>(&next)) granted->grant.apply = apply;
    std::visit(
        [&](auto& i) {
          i.arrived = time_.now();
          if (arrives_before) i.arrived = Ticks(i.arrived.ns - arrives_before->count());
          i.report = report_time;
        },
        next);
    if (auto* granted = std::get_if<Granted>(&next)) granted->grant.held = held_for;
    if (auto* finished = std::get_if<Finished>(&next)) finished->held = held_for;
    return Result<Instruction>(std::move(next));
  }
  void push(Contribution gradient) override {
    requested_at_push.push_back(requested.size());
    gradient.values = {};  // as if every byte had left
    pushed.push_back(std::move(gradient));
  }
  void push_early(const Contribution& gradient, std::int64_t begin) override {
    PACELINE_ASSERT(gradient.samples == 0, "samples of a gradient that is not computed");
    pushed_from.push_back(begin);
  }
  std::int64_t at_once = std::numeric_limits<std::int64_t>::max();
  std::int64_t floats_at_once() const override { return at_once; }
  EarlyPush pushed_early(WorkerId, Ticks) const override { return early; }
  void withdraw(const Contribution& gradient) override { withdrawn.push_back(gradient.clock); }
  void report(RoundReport report) override {
    on_report();
    reported.push_back(std::move(report));
  }
  std::optional<GrantHold> held(std::uint32_t) const override { return std::nullopt; }
  Ticket request_parameters(Version min_version) override {
    requested.push_back(min_version);
    return requested.size() - 1;
  }
  Result<Ticks> await_parameters(Ticket ticket, ParameterSink& sink) override {
    while_awaiting();
    std::vector<std::shared_ptr<Slice>> slices = serve(requested.at(ticket));
    for (std::uint32_t k = 0; k < slices.size(); ++k) {
      if (slices[k] == nullptr) continue;
      // As a node with one thread does it.
      for (SlicePiece& piece : slices[k]->pieces) {
        if (sink.copy_in(ShardId(k), slices[k]->stamp, piece)) piece.payload = Payload();
      }
      cache_.install(ShardId(k), std::move(slices[k]));
    }
    const Ticks installed = time_.now();
    installed_[ticket] = installed;
    after_installing();
    return installed;
  }
  Result<std::optional<Ticks>> await_early(std::uint32_t, Ticket ticket, ParameterSink& sink) override {
    const bool finished = !instructions_.empty() && std::holds_alternative<Finished>(instructions_.front());
    if (finished && finishes_early) return std::optional<Ticks>();
    PACELINE_ASSIGN_OR_RETURN(const Ticks installed, await_parameters(ticket, sink));
    return std::optional(installed);
  }
  std::optional<Ticks> parameters_installed(Ticket ticket) override {
    const auto found = installed_.find(ticket);
    return found == installed_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::map<Ticket, Ticks> installed_;
  ProcessCache& cache_;
  ManualTime& time_;
  std::deque<Instruction> instructions_;
};

inline step::Grant grant_of(std::int64_t clock, Threshold s, std::int64_t newest) {
  step::Grant grant;
  grant.worker = WorkerId(0, 0);
  grant.clock = Clock(clock);
  grant.iteration = clock;
  grant.threshold = s;
  grant.min_version = s.oldest_version(Clock(clock));
  grant.version = Version(newest);
  grant.revision = Revision(newest);
  grant.learning_rate = 1.0;
  return grant;
}

// The same as an authority says it.
inline wire::Grant wire_grant_of(std::int64_t clock, Threshold s, std::int64_t newest) {
  const step::Grant grant = grant_of(clock, s, newest);
  return {.worker = grant.worker,
          .clock = grant.clock,
          .iteration = grant.iteration,
          .threshold = grant.threshold,
          .min_version = grant.min_version,
          .version = grant.version,
          .revision = grant.revision,
          .learning_rate = grant.learning_rate};
}

}  // namespace paceline::testing
