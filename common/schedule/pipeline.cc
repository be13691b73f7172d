#include "common/schedule/pipeline.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/assert.h"

namespace paceline::schedule {
namespace {

using Pass = PipelineRow::Pass;

PipelineRows gpipe(std::uint32_t micro_batches) {
  PipelineRows rows;
  for (std::uint32_t m = 0; m < micro_batches; ++m) rows.push_back({Pass::kForward, m});
  for (std::uint32_t m = micro_batches; m-- > 0;) rows.push_back({Pass::kBackward, m});
  return rows;
}

PipelineRows one_forward_one_backward(std::uint32_t stages, std::uint32_t stage,
                                      std::uint32_t micro_batches) {
  const std::uint32_t ahead = std::min(stages - stage, micro_batches);
  PipelineRows rows;
  std::uint32_t forward = 0;
  for (; forward < ahead; ++forward) rows.push_back({Pass::kForward, forward});
  for (std::uint32_t m = 0; m < micro_batches; ++m) {
    rows.push_back({Pass::kBackward, m});
    if (forward < micro_batches) rows.push_back({Pass::kForward, forward++});
  }
  return rows;
}

// What was not computed last has to be computed again.
PipelineRows recomputed(const PipelineRows& rows) {
  PipelineRows all;
  for (const PipelineRow& row : rows) {
    const bool is_there = !all.empty() && all.back() == PipelineRow{Pass::kForward, row.micro_batch};
    if (row.pass == Pass::kBackward && !is_there) all.push_back({Pass::kRecompute, row.micro_batch});
    all.push_back(row);
  }
  return all;
}

std::string to_string(const PipelineRow& row) {
  return "FRB"[static_cast<std::size_t>(row.pass)] + std::to_string(row.micro_batch);
}

Status at_row(std::size_t stage, std::size_t row, const PipelineRow& what, const std::string& why) {
  return invalid_argument("stage " + std::to_string(stage) + ", row " + std::to_string(row) + " (" +
                          to_string(what) + "): " + why);
}

bool recomputes(const PipelineRows& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.pass == Pass::kRecompute; });
}

// Of one stage alone.
Status check_rows(const PipelinePlan& plan, std::size_t stage) {
  enum class State { kNew, kForwarded, kRecomputed, kDone };
  const PipelineRows& rows = plan.stages[stage];
  std::vector<State> states(plan.micro_batches, State::kNew);
  const bool drops = recomputes(rows);
  std::optional<std::uint32_t> last;  // computed forward just before
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PipelineRow& row = rows[i];
    if (row.micro_batch >= plan.micro_batches) {
      return at_row(stage, i, row,
                    "expected one of " + std::to_string(plan.micro_batches) + " micro-batches");
    }
    State& state = states[row.micro_batch];
    switch (row.pass) {
      case Pass::kForward:
        if (state != State::kNew) return at_row(stage, i, row, "forward once more");
        state = State::kForwarded;
        break;
      case Pass::kRecompute:
        if (state != State::kForwarded) return at_row(stage, i, row, "nothing to compute again");
        if (last == row.micro_batch) return at_row(stage, i, row, "it is there already");
        state = State::kRecomputed;
        break;
      case Pass::kBackward:
        if (state == State::kNew) return at_row(stage, i, row, "backward before forward");
        if (state == State::kDone) return at_row(stage, i, row, "backward once more");
        if (drops && state == State::kForwarded && last != row.micro_batch) {
          return at_row(stage, i, row, "its activations are not there");
        }
        state = State::kDone;
        break;
    }
    last = row.pass == Pass::kBackward ? std::nullopt : std::optional(row.micro_batch);
  }
  for (std::uint32_t m = 0; m < plan.micro_batches; ++m) {
    if (states[m] == State::kDone) continue;
    return invalid_argument("stage " + std::to_string(stage) + ": micro-batch " + std::to_string(m) +
                            (states[m] == State::kNew ? " never comes" : " never goes back"));
  }
  const Kept most = kept(rows);
  const Kept& bound = plan.bounds[stage];
  if (most.inputs > bound.inputs || most.activations > bound.activations) {
    return invalid_argument("stage " + std::to_string(stage) + ": keeps " + std::to_string(most.inputs) +
                            " micro-batches, " + std::to_string(most.activations) +
                            " with activations, expected at most " + std::to_string(bound.inputs) + " and " +
                            std::to_string(bound.activations));
  }
  return Status::ok();
}

// Stage by stage, as far as what arrives goes. `began`: called with each row as it can begin, in an order in which
// whatever it waits for has begun before. Whether all did; else the first that waits.
struct Stuck {
  std::size_t stage;
  std::size_t row;
};
template <typename Began>
std::optional<Stuck> replay(const PipelinePlan& plan, const Began& began) {
  const std::size_t stages = plan.stages.size();
  std::vector<std::size_t> next(stages, 0);
  // What has been sent and not taken, by the stage that takes it, in order.
  std::vector<std::vector<std::uint32_t>> forward(stages);
  std::vector<std::vector<std::uint32_t>> backward(stages);
  const auto arrived = [](std::vector<std::uint32_t>& queue, std::uint32_t micro_batch) {
    if (queue.empty() || queue.front() != micro_batch) return false;
    queue.erase(queue.begin());
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      for (; next[s] < plan.stages[s].size(); ++next[s], moved = true) {
        const PipelineRow& row = plan.stages[s][next[s]];
        if (row.pass == Pass::kForward && s > 0 && !arrived(forward[s], row.micro_batch)) break;
        if (row.pass == Pass::kBackward && s + 1 < stages && !arrived(backward[s], row.micro_batch)) break;
        began(s, row);
        if (row.pass == Pass::kForward && s + 1 < stages) forward[s + 1].push_back(row.micro_batch);
        if (row.pass == Pass::kBackward && s > 0) backward[s - 1].push_back(row.micro_batch);
      }
    }
  }
  for (std::size_t s = 0; s < stages; ++s) {
    if (next[s] < plan.stages[s].size()) return Stuck{s, next[s]};
  }
  return std::nullopt;
}

}  // namespace

PipelinePlan plan_pipeline(PipelineKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                           bool rematerialize) {
  PACELINE_ASSERT(stages >= 1 && micro_batches >= 1, "a pipeline of nothing");
  PipelinePlan plan;
  plan.micro_batches = micro_batches;
  for (std::uint32_t s = 0; s < stages; ++s) {
    const bool turns_back = kind == PipelineKind::kOneForwardOneBackward;
    PipelineRows rows =
        turns_back ? one_forward_one_backward(stages, s, micro_batches) : gpipe(micro_batches);
    const std::int64_t most = turns_back ? std::min(stages - s, micro_batches) : micro_batches;
    plan.stages.push_back(rematerialize ? recomputed(rows) : std::move(rows));
    plan.bounds.push_back({most, rematerialize ? 1 : most});
  }
  return plan;
}

Kept kept(const PipelineRows& rows) {
  const bool drops = recomputes(rows);
  Kept now;
  Kept most;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PipelineRow& row = rows[i];
    if (row.pass == Pass::kForward) ++now.inputs;
    if (row.pass != Pass::kBackward) ++now.activations;
    most.inputs = std::max(most.inputs, now.inputs);
    most.activations = std::max(most.activations, now.activations);
    const bool is_used = i + 1 < rows.size() && rows[i + 1] == PipelineRow{Pass::kBackward, row.micro_batch};
    if (row.pass == Pass::kBackward) --now.inputs;
    if (row.pass == Pass::kBackward || (drops && row.pass == Pass::kForward && !is_used)) --now.activations;
  }
  return most;
}

Status check(const PipelinePlan& plan) {
  PACELINE_ASSERT(plan.bounds.size() == plan.stages.size(), "a plan without bounds");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) PACELINE_RETURN_IF_ERROR(check_rows(plan, s));
  if (const auto stuck = replay(plan, [](std::size_t, const PipelineRow&) {})) {
    const PipelineRow& row = plan.stages[stuck->stage][stuck->row];
    return at_row(stuck->stage, stuck->row, row, "waits for what never arrives, or not in this order");
  }
  return Status::ok();
}

std::string to_string(const PipelineRows& rows) {
  std::string text;
  for (const PipelineRow& row : rows) text += (text.empty() ? "" : " ") + to_string(row);
  return text;
}

double PipelineTimes::bubble_share() const {
  const double all = step * static_cast<double>(busy.size());
  return all > 0 ? 1.0 - std::accumulate(busy.begin(), busy.end(), 0.0) / all : 0.0;
}

PipelineTimes times(const PipelinePlan& plan, std::span<const StageTimes> stages,
                    std::span<const double> weights) {
  PACELINE_ASSERT(stages.size() == plan.stages.size(), std::to_string(stages.size()));
  PipelineTimes ran;
  ran.busy.assign(stages.size(), 0.0);
  std::vector<double> free(stages.size(), 0.0);  // from when on a stage is
  using Instants = std::vector<std::vector<double>>;
  Instants forward(stages.size(), std::vector<double>(plan.micro_batches, 0.0));
  Instants backward = forward;
  const auto stuck = replay(plan, [&](std::size_t s, const PipelineRow& row) {
    const std::uint32_t m = row.micro_batch;
    double ready = 0.0;
    if (row.pass == Pass::kForward && s > 0) ready = forward[s - 1][m];
    if (row.pass == Pass::kBackward && s + 1 < stages.size()) ready = backward[s + 1][m];
    const double weight = weights.empty() ? 1.0 : weights[m];
    const double length = weight * (row.pass == Pass::kBackward ? stages[s].backward : stages[s].forward);
    free[s] = std::max(free[s], ready) + length;
    ran.busy[s] += length;
    ran.step = std::max(ran.step, free[s]);
    if (row.pass == Pass::kForward) forward[s][m] = free[s];
    if (row.pass == Pass::kBackward) backward[s][m] = free[s];
  });
  PACELINE_ASSERT(!stuck, "a plan that was not checked");
  return ran;
}

double bubble_formula(std::uint32_t stages, std::uint32_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, std::uint32_t micro_batches) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    sizes.push_back(samples / micro_batches + (m < samples % micro_batches ? 1 : 0));
  }
  return sizes;
}

}  // namespace paceline::schedule
