// The counting model: a Task whose parameters *count*, so that the guarantees become numbers that can be read
// off the vector a worker computes with.
//
// The flat vector is `blocks` rows of one element per worker. The gradient of worker w is -1 in its own
// column and 0 elsewhere; with SGD at learning rate 1 the server then adds 1 to that column for each gradient
// it applies (so it does with momentum 0, and with Adam whose betas are 0). So, in any vector that any worker
// computes with:
//   own column         = own clock, exactly         read-my-writes: each own update once, none missing, none
//                                                   twice
//   column of j        >= min(c - s, share of j)    model state: every gradient stamped <= c - s - 1 is
//                                                   contained
//   column of j        never falls                  monotonic
//   rows of a column   equal in the final model     a push is on all shards or on none (rows lie on different
//                                                   shards)
// With `in_parts` the gradient is made from its end to its begin, as a backward pass makes it, and said to be
// final in random parts, so that it leaves while the rest is still NaN: what leaves too early is found.
//
// Under combine: mean a clock's K gradients are averaged, so the gradient is -K to make the mean add 1.
//
// With `local_steps` T the inner optimizer is SGD at learning rate 1 / T, so that a round adds 1. What a round
// begins with is read as above; each local step after the first has to find that, and in its own column n / T
// of a round besides.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/params/partition.h"
#include "common/random.h"
#include "common/task/task.h"

namespace paceline::testing {

// What one training thread saw at one step: handed to the observer from within Task::compute, on that thread.
struct Read {
  Step step;
  std::vector<float> counts;  // blocks x workers, row-major
};

struct CountingOptions {
  Cluster cluster;
  std::int64_t blocks = 3;
  std::uint64_t seed = 1;       // of the metric
  float gradient_scale = 1.0F;  // K under combine: mean, else 1
  bool in_parts = false;
  std::int64_t local_steps = 1;  // a power of two
  // May be empty: whether the last part to be made, the first element alone, is and stays NaN.
  std::function<bool(const Step&)> is_not_finite;
  // May be empty: whether the loss is NaN, and of the gradient the last element with it.
  std::function<bool(const Step&)> diverges;
  std::function<void(const Read&)> on_read;                 // may be empty; called on the training thread
  std::function<Status(const Step&)> before_compute;        // may be empty; delays or fails a step
  std::function<void(const Step&)> after_compute;           // may be empty; before anything of it is sent
  std::function<void(std::span<const float>)> on_evaluate;  // may be empty; on the evaluator's thread
};

class CountingTask : public Task {
 public:
  CountingTask(const CountingOptions& options, WorkerId worker) : options_(options), worker_(worker) {}

  Status load(const Step& step) override {
    step_ = step;
    return options_.before_compute ? options_.before_compute(step) : Status::ok();
  }

  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    if (step_.local_step == 0) {
      if (options_.on_read) options_.on_read({step_, {parameters.begin(), parameters.end()}});
      if (options_.local_steps > 1) begin_.assign(parameters.begin(), parameters.end());
    } else {
      PACELINE_RETURN_IF_ERROR(check_local_step(parameters));
    }
    const std::int64_t own = options_.cluster.rank_of(worker_).value;
    std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
    const bool is_not_finite = options_.is_not_finite && options_.is_not_finite(step_);
    CounterRandom cut(options_.seed, Stream::kTest, 70 + static_cast<std::uint64_t>(own),
                      static_cast<std::uint64_t>(step_.clock.value));
    const std::int64_t first = is_not_finite ? 1 : 0;
    for (std::int64_t end = std::ssize(gradient); end > first;) {
      const auto rest = static_cast<std::uint64_t>(end - first);
      const std::int64_t begin =
          options_.in_parts ? end - 1 - static_cast<std::int64_t>(cut.next_below(rest)) : first;
      make(gradient, {begin, end});
      if (options_.in_parts) final_from(begin);
      end = begin;
    }
    if (is_not_finite && options_.in_parts) final_from(0);
    // A metric that goes up and down, so that the LPR moves DTSSP's threshold.
    CounterRandom random(options_.seed, Stream::kTest, static_cast<std::uint64_t>(own),
                         static_cast<std::uint64_t>(step_.clock.value));
    if (options_.after_compute) options_.after_compute(step_);
    if (options_.diverges && options_.diverges(step_)) {
      gradient.back() = std::numeric_limits<float>::quiet_NaN();
      return Metric{std::numeric_limits<double>::quiet_NaN(), 0, 10};
    }
    return Metric{random.next_double() * 10.0, static_cast<std::int64_t>(random.next_below(11)), 10};
  }

  Result<Metric> evaluate(std::span<const float> parameters) override {
    if (options_.on_evaluate) options_.on_evaluate(parameters);
    double sum = 0.0;
    for (float p : parameters) sum += p;
    return Metric{sum, 0, 1};
  }

 private:
  Status check_local_step(std::span<const float> parameters) const {
    const std::int64_t workers = options_.cluster.workers();
    const std::int64_t own = options_.cluster.rank_of(worker_).value;
    const float done = options_.gradient_scale * static_cast<float>(step_.local_step) /
                       static_cast<float>(options_.local_steps);
    for (std::int64_t i = 0; i < std::ssize(parameters); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const float expected = begin_[at] + (i % workers == own ? done : 0.0F);
      if (std::fabs(parameters[at] - expected) < 1e-3F || std::isnan(parameters[at])) continue;
      return invalid_argument("local step " + std::to_string(step_.local_step) + ": element " +
                              std::to_string(i) + " is " + std::to_string(parameters[at]) + ", expected " +
                              std::to_string(expected));
    }
    return Status::ok();
  }

  void make(std::span<float> gradient, Range part) const {
    const std::int64_t workers = options_.cluster.workers();
    const std::int64_t own = options_.cluster.rank_of(worker_).value;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      gradient[static_cast<std::size_t>(i)] = i % workers == own ? -options_.gradient_scale : 0.0F;
    }
  }

  const CountingOptions& options_;
  const WorkerId worker_;
  Step step_;
  std::vector<float> begin_;  // of the round
};

class CountingFactory : public TaskFactory {
 public:
  explicit CountingFactory(CountingOptions options) : options_(std::move(options)) {
    const auto added = layout_.add("counts", {options_.blocks, options_.cluster.workers()});
    PACELINE_ASSERT(added.is_ok(), added.status().message());
  }
  const Layout& layout() const override { return layout_; }
  void initialize(std::span<float> parameters) const override {
    std::fill(parameters.begin(), parameters.end(), 0.0F);
  }
  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    return std::unique_ptr<Task>(std::make_unique<CountingTask>(options_, worker));
  }
  Result<std::unique_ptr<Task>> make_evaluator() override {
    return std::unique_ptr<Task>(std::make_unique<CountingTask>(options_, WorkerId(0, 0)));
  }

 private:
  const CountingOptions options_;
  Layout layout_;
};

}  // namespace paceline::testing
