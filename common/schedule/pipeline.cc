#include "common/schedule/pipeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
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

// Row by row with room for `most` micro-batches' activations. Where there is none the one goes whose backward pass is
// the furthest away. What went at any time is dropped behind its forward pass, where nothing has used it yet.
PipelineRows recomputed(const PipelineRows& rows, std::int64_t most) {
  std::map<std::uint32_t, std::size_t> backward_at;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].pass == Pass::kBackward) backward_at[rows[i].micro_batch] = i;
  }
  std::set<std::uint32_t> there;
  const auto take = [&](std::uint32_t micro_batch) {
    if (std::ssize(there) == most) {
      there.erase(std::max_element(there.begin(), there.end(), [&](std::uint32_t one, std::uint32_t other) {
        return backward_at.at(one) < backward_at.at(other);
      }));
    }
    there.insert(micro_batch);
  };
  PipelineRows all;
  for (const PipelineRow& row : rows) {
    if (row.pass == Pass::kForward) take(row.micro_batch);
    if (row.pass == Pass::kBackward) {
      if (!there.contains(row.micro_batch)) {
        take(row.micro_batch);
        all.push_back({Pass::kRecompute, row.micro_batch});
      }
      there.erase(row.micro_batch);
    }
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

// Of one stage alone.
Status check_rows(const PipelinePlan& plan, std::size_t stage) {
  enum class State { kNew, kForwarded, kRecomputed, kDone };
  const PipelineRows& rows = plan.stages[stage];
  std::vector<State> states(plan.micro_batches, State::kNew);
  const std::vector<bool> dropped = is_recomputed(rows);
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
        if (dropped[row.micro_batch] && state == State::kForwarded) {
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
                           std::span<const std::int64_t> activations_max) {
  PACELINE_ASSERT(stages >= 1 && micro_batches >= 1, "a pipeline of nothing");
  PACELINE_ASSERT(activations_max.empty() || activations_max.size() == stages, "a bound for each stage");
  PipelinePlan plan;
  plan.micro_batches = micro_batches;
  for (std::uint32_t s = 0; s < stages; ++s) {
    const bool turns_back = kind == PipelineKind::kOneForwardOneBackward;
    PipelineRows rows =
        turns_back ? one_forward_one_backward(stages, s, micro_batches) : gpipe(micro_batches);
    const std::int64_t all = turns_back ? std::min(stages - s, micro_batches) : micro_batches;
    const std::int64_t most = activations_max.empty() ? all : std::min(all, activations_max[s]);
    PACELINE_ASSERT(most >= 1, "a stage has the activations that it computes with");
    plan.stages.push_back(most < all ? recomputed(rows, most) : std::move(rows));
    plan.bounds.push_back({all, most});
  }
  return plan;
}

std::vector<bool> is_recomputed(const PipelineRows& rows) {
  std::vector<bool> is;
  for (const PipelineRow& row : rows) {
    if (row.micro_batch >= is.size()) is.resize(row.micro_batch + std::size_t{1}, false);
    if (row.pass == Pass::kRecompute) is[row.micro_batch] = true;
  }
  return is;
}

Kept kept(const PipelineRows& rows) {
  const std::vector<bool> dropped = is_recomputed(rows);
  Kept now;
  Kept most;
  for (const PipelineRow& row : rows) {
    if (row.pass == Pass::kForward) ++now.inputs;
    if (row.pass != Pass::kBackward) ++now.activations;
    most.inputs = std::max(most.inputs, now.inputs);
    most.activations = std::max(most.activations, now.activations);
    if (row.pass == Pass::kBackward) --now.inputs;
    if (row.pass == Pass::kBackward || (row.pass == Pass::kForward && dropped[row.micro_batch])) {
      --now.activations;
    }
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
                    std::span<const double> weights, std::span<const double> begins,
                    std::span<const StageLink> links) {
  const std::size_t count = plan.stages.size();
  PACELINE_ASSERT(stages.size() == count && (begins.empty() || begins.size() == count) &&
                      (links.empty() || links.size() + 1 == count),
                  std::to_string(stages.size()));
  PipelineTimes ran;
  ran.busy.assign(count, 0.0);
  ran.rows.resize(count);
  std::vector<double> free(begins.begin(), begins.end());  // from when on a stage is
  free.resize(count, 0.0);
  // When a link's last message has left it whole, in each direction.
  std::vector<double> left_forward(links.size(), 0.0);
  std::vector<double> left_backward(links.size(), 0.0);
  const auto arrives = [](double sent, double latency, double takes, double& left) {
    left = std::max(left, sent) + takes;
    return left + latency;
  };
  using Instants = std::vector<std::vector<double>>;
  Instants forward(count, std::vector<double>(plan.micro_batches, 0.0));  // there at the next stage
  Instants backward = forward;                                            // there at the stage in front
  const auto stuck = replay(plan, [&](std::size_t s, const PipelineRow& row) {
    const std::uint32_t m = row.micro_batch;
    const double weight = weights.empty() ? 1.0 : weights[m];
    double ready = free[s];
    if (row.pass == Pass::kForward && s > 0) ready = std::max(ready, forward[s - 1][m]);
    if (row.pass == Pass::kBackward && s + 1 < count) ready = std::max(ready, backward[s + 1][m]);
    const double length = weight * (row.pass == Pass::kBackward ? stages[s].backward : stages[s].forward);
    free[s] = ready + length;
    ran.rows[s].push_back({row, ready, free[s]});
    ran.busy[s] += length;
    ran.step = std::max(ran.step, free[s]);
    if (row.pass == Pass::kForward) {
      forward[s][m] = links.empty() || s + 1 == count
                          ? free[s]
                          : arrives(free[s], links[s].latency, weight * links[s].forward, left_forward[s]);
    }
    if (row.pass == Pass::kBackward) {
      backward[s][m] =
          links.empty() || s == 0
              ? free[s]
              : arrives(free[s], links[s - 1].latency, weight * links[s - 1].backward, left_backward[s - 1]);
    }
  });
  PACELINE_ASSERT(!stuck, "a plan that was not checked");
  return ran;
}

std::string timeline(const PipelineTimes& times, std::size_t columns) {
  std::string text;
  const auto at = [&](double instant) {
    return static_cast<std::size_t>(instant / times.step * static_cast<double>(columns));
  };
  for (std::size_t s = 0; s < times.rows.size(); ++s) {
    std::string line(columns, '.');
    for (const PassTime& pass : times.rows[s]) {
      const std::size_t begin = at(pass.begin);
      const std::size_t end = std::min(at(pass.end), columns);
      std::string name = to_string(pass.row);
      name.resize(end > begin ? end - begin : 0, '-');
      line.replace(begin, name.size(), name);
    }
    text += "stage " + std::to_string(s) + std::string(s < 10 ? " " : "") + " " + line + "\n";
  }
  return text;
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
