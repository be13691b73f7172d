#include "common/schedule/pipeline.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/assert.h"

namespace paceline::schedule {
namespace {

using Pass = PipelineRow::Pass;

std::string to_string(const PipelineRow& row) {
  return "FRB"[static_cast<std::size_t>(row.pass)] + std::to_string(row.micro_batch) +
         (row.chunk == 0 ? "" : "." + std::to_string(row.chunk));
}

Status at_row(std::size_t stage, std::size_t row, const PipelineRow& what, const std::string& why) {
  return invalid_argument("stage " + std::to_string(stage) + ", row " + std::to_string(row) + " (" +
                          to_string(what) + "): " + why);
}

// Of one stage's chunk alone.
Status check_rows(const PipelinePlan& plan, std::size_t stage, std::uint32_t chunk) {
  enum class State { kNew, kForwarded, kRecomputed, kDone };
  const PipelineRows& rows = plan.stages[stage];
  std::vector<State> states(plan.micro_batches, State::kNew);
  const std::vector<bool> dropped = is_recomputed(rows, chunk);
  std::optional<std::uint32_t> last;  // computed forward just before
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PipelineRow& row = rows[i];
    if (row.chunk >= plan.chunks) {
      return at_row(stage, i, row, "expected one of " + std::to_string(plan.chunks) + " chunks");
    }
    if (row.chunk != chunk) continue;
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
  const std::string name = "stage " + std::to_string(stage) +
                           (plan.chunks > 1 ? ", chunk " + std::to_string(chunk) : std::string());
  for (std::uint32_t m = 0; m < plan.micro_batches; ++m) {
    if (states[m] == State::kDone) continue;
    return invalid_argument(name + ": micro-batch " + std::to_string(m) +
                            (states[m] == State::kNew ? " never comes" : " never goes back"));
  }
  const Kept most = kept(rows, chunk);
  const Kept& bound = plan.bounds[stage + chunk * plan.stages.size()];
  if (most.inputs > bound.inputs || most.activations > bound.activations) {
    return invalid_argument(name + ": keeps " + std::to_string(most.inputs) + " micro-batches, " +
                            std::to_string(most.activations) + " with activations, expected at most " +
                            std::to_string(bound.inputs) + " and " + std::to_string(bound.activations));
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
  const std::size_t last = stages * plan.chunks - 1;
  std::vector<std::size_t> next(stages, 0);
  // What has been sent and not taken, by the stage that takes it, in order: of which chunk there, which micro-batch.
  using Sent = std::pair<std::uint32_t, std::uint32_t>;
  std::vector<std::vector<Sent>> forward(stages);
  std::vector<std::vector<Sent>> backward(stages);
  const auto arrived = [](std::vector<Sent>& queue, const PipelineRow& row) {
    if (queue.empty() || queue.front() != Sent(row.chunk, row.micro_batch)) return false;
    queue.erase(queue.begin());
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      for (; next[s] < plan.stages[s].size(); ++next[s], moved = true) {
        const PipelineRow& row = plan.stages[s][next[s]];
        const std::size_t chunk = s + row.chunk * stages;
        if (row.pass == Pass::kForward && chunk > 0 && !arrived(forward[s], row)) break;
        if (row.pass == Pass::kBackward && chunk < last && !arrived(backward[s], row)) break;
        began(s, row);
        if (row.pass == Pass::kForward && chunk < last) {
          forward[(s + 1) % stages].emplace_back((chunk + 1) / stages, row.micro_batch);
        }
        if (row.pass == Pass::kBackward && chunk > 0) {
          backward[(s + stages - 1) % stages].emplace_back((chunk - 1) / stages, row.micro_batch);
        }
      }
    }
  }
  for (std::size_t s = 0; s < stages; ++s) {
    if (next[s] < plan.stages[s].size()) return Stuck{s, next[s]};
  }
  return std::nullopt;
}

}  // namespace

std::vector<bool> is_recomputed(const PipelineRows& rows, std::uint32_t chunk) {
  std::vector<bool> is;
  for (const PipelineRow& row : rows) {
    if (row.chunk != chunk) continue;
    if (row.micro_batch >= is.size()) is.resize(row.micro_batch + std::size_t{1}, false);
    if (row.pass == Pass::kRecompute) is[row.micro_batch] = true;
  }
  return is;
}

Kept kept(const PipelineRows& rows, std::uint32_t chunk) {
  const std::vector<bool> dropped = is_recomputed(rows, chunk);
  Kept now;
  Kept most;
  for (const PipelineRow& row : rows) {
    if (row.chunk != chunk) continue;
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
  PACELINE_ASSERT(plan.bounds.size() == plan.stages.size() * plan.chunks, "a plan without bounds");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::uint32_t chunk = 0; chunk < plan.chunks; ++chunk) {
      PACELINE_RETURN_IF_ERROR(check_rows(plan, s, chunk));
    }
  }
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

PipelineTimes times(const PipelinePlan& plan, std::span<const StageTimes> chunks,
                    std::span<const double> weights, std::span<const double> begins,
                    std::span<const StageLink> links) {
  const std::size_t count = plan.stages.size();
  const std::size_t all = count * plan.chunks;
  PACELINE_ASSERT(chunks.size() == all && (begins.empty() || begins.size() == count) &&
                      (links.empty() || links.size() + 1 == all),
                  std::to_string(chunks.size()));
  PipelineTimes ran;
  ran.busy.assign(count, 0.0);
  ran.rows.resize(count);
  std::vector<double> free(begins.begin(), begins.end());  // from when on a stage is
  free.resize(count, 0.0);
  // When the last message that a stage has sent on, or back, has left it whole. Of two both go to the other.
  std::vector<double> left_forward(count, 0.0);
  std::vector<double> own_backward(count, 0.0);
  std::vector<double>& left_backward = count == 2 ? left_forward : own_backward;
  const auto arrives = [](double sent, double latency, double takes, double& left) {
    left = std::max(left, sent) + takes;
    return left + latency;
  };
  using Instants = std::vector<std::vector<double>>;
  Instants forward(all, std::vector<double>(plan.micro_batches, 0.0));  // there at the next chunk
  Instants backward = forward;                                          // there at the chunk in front
  const auto stuck = replay(plan, [&](std::size_t s, const PipelineRow& row) {
    const std::size_t c = s + row.chunk * count;
    const std::uint32_t m = row.micro_batch;
    const double weight = weights.empty() ? 1.0 : weights[m];
    double ready = free[s];
    if (row.pass == Pass::kForward && c > 0) ready = std::max(ready, forward[c - 1][m]);
    if (row.pass == Pass::kBackward && c + 1 < all) ready = std::max(ready, backward[c + 1][m]);
    const double length = weight * (row.pass == Pass::kBackward ? chunks[c].backward : chunks[c].forward);
    free[s] = ready + length;
    ran.rows[s].push_back({row, ready, free[s]});
    ran.busy[s] += length;
    ran.step = std::max(ran.step, free[s]);
    if (row.pass == Pass::kForward) {
      forward[c][m] = links.empty() || c + 1 == all
                          ? free[s]
                          : arrives(free[s], links[c].latency, weight * links[c].forward, left_forward[s]);
    }
    if (row.pass == Pass::kBackward) {
      backward[c][m] = links.empty() || c == 0 ? free[s]
                                               : arrives(free[s], links[c - 1].latency,
                                                         weight * links[c - 1].backward, left_backward[s]);
    }
  });
  PACELINE_ASSERT(!stuck, "a plan that was not checked");
  return ran;
}

double bubble_formula(std::uint32_t stages, std::uint32_t micro_batches, std::uint32_t chunks) {
  return static_cast<double>(stages - 1) /
         (static_cast<double>(chunks) * static_cast<double>(micro_batches) + static_cast<double>(stages - 1));
}

std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, std::uint32_t micro_batches) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    sizes.push_back(samples / micro_batches + (m < samples % micro_batches ? 1 : 0));
  }
  return sizes;
}

}  // namespace paceline::schedule
