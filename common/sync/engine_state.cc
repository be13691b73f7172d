// The Engine saved and resumed: what of it a checkpoint holds, whether such a state can be a run's, and the
// engine that goes on from it (engine_state.h).
#include "common/sync/engine_state.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/sync/batch_balance.h"
#include "common/sync/engine.h"

namespace paceline::sync {
namespace {

// No run has more of anything that is counted; products of a few of them fit into 64 bits.
constexpr std::int64_t kCountMax = std::int64_t{1} << 40;

// What is left is a list where iterations are handed out from one; else each clock's are its workers'.
bool lists_what_is_left(const EngineConfig& config) {
  return config.share == Share::kPool || workers_come_and_go(config);
}

Status expect_equal(const char* what, std::int64_t got, std::int64_t expected) {
  if (got == expected) return Status::ok();
  return invalid_argument(std::string(what) + ": got " + std::to_string(got) + ", expected " +
                          std::to_string(expected) + " as configured");
}

Status expect_within(const std::string& what, std::int64_t got, std::int64_t most) {
  if (got >= 0 && got <= most) return Status::ok();
  return invalid_argument(what + ": got " + std::to_string(got) + ", expected 0 .. " + std::to_string(most));
}

Status validate_left(const EngineState& state, const EngineConfig& config) {
  if (!lists_what_is_left(config)) {
    if (state.left.empty()) return Status::ok();
    return invalid_argument("left: got " + std::to_string(state.left.size()) +
                            " ranges, expected none where each clock is cut for all workers of the run");
  }
  const std::int64_t total = config.total_iterations;
  std::int64_t next = 0, count = 0;
  for (std::size_t i = 0; i < state.left.size(); ++i) {
    const IterationRange range = state.left[i];
    if (range.first < next || range.first >= total || range.count < 1 || range.count > total - range.first) {
      return invalid_argument("left[" + std::to_string(i) + "]: got " + std::to_string(range.count) +
                              " iterations from " + std::to_string(range.first) + ", expected some of " +
                              std::to_string(next) + " .. " + std::to_string(total - 1));
    }
    next = range.first + range.count;
    count += range.count;
  }
  const std::int64_t all = state.revision.value + state.skipped + count;
  if (all == total) return Status::ok();
  return invalid_argument("left: got " + std::to_string(count) + " iterations beside " +
                          to_string(state.revision) + " applied and " + std::to_string(state.skipped) +
                          " skipped, together " + std::to_string(all) + ", expected " +
                          std::to_string(total));
}

Status validate_lpr(const LprState& lpr, const EngineConfig& config) {
  PACELINE_RETURN_IF_ERROR(expect_equal("lpr.window_clocks", lpr.window_clocks, window_clocks_of(config)));
  for (std::size_t i = 0; i < lpr.open.size(); ++i) {
    const std::string window = "lpr.open[" + std::to_string(i) + "]";
    PACELINE_RETURN_IF_ERROR(expect_within(window + ".samples", lpr.open[i].samples, kCountMax));
    if (lpr.open[i].correct == Metric::kNotCounted) continue;
    PACELINE_RETURN_IF_ERROR(expect_within(window + ".correct", lpr.open[i].correct, lpr.open[i].samples));
  }
  return Status::ok();
}

Status validate_batch_sizes(const BatchSizes& sizes, const EngineConfig& config) {
  if (config.batch_sizing == BatchSizing::kEqual) {
    return expect_equal("batch_sizes", std::ssize(sizes), 0);
  }
  const std::int64_t workers = config.cluster.workers();
  PACELINE_RETURN_IF_ERROR(expect_equal("batch_sizes", std::ssize(sizes), workers));
  const std::int64_t total = workers * config.batch_size;
  std::int64_t sum = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (sizes[r] < config.batch_step || sizes[r] % config.batch_step != 0 || sizes[r] > total) {
      return invalid_argument("batch_sizes[" + std::to_string(r) + "]: got " + std::to_string(sizes[r]) +
                              ", expected a multiple of " + std::to_string(config.batch_step));
    }
    sum += sizes[r];
  }
  return expect_equal("batch_sizes, together", sum, total);
}

// Of the whole run, all that is neither applied nor skipped: in nobody's hands, in somebody's, or `waiting` for
// its clock's turn. What a late worker is at (backup) has been given back.
IterationRanges left(const EngineParts& run, IterationRanges waiting) {
  IterationRanges left = std::move(waiting);
  run.share.add_not_given(left);
  for (std::uint32_t r = 0; r < run.workers.size(); ++r) {
    const WorkerEntry& w = run.workers[Rank(r)];
    const bool ahead = run.workers.granted_ahead(Rank(r));
    if (w.phase == WorkerPhase::kRunning) left.push_back({w.running.iteration(), 1});
    if (ahead) left.push_back({run.workers.ahead(Rank(r)).running.iteration(), 1});
    if (w.phase == WorkerPhase::kRunning) {
      run.share.add_given(Rank(r), ahead ? w.clock.next().next() : w.clock.next(), left);
    }
    if (w.phase == WorkerPhase::kHeld) run.share.add_given(Rank(r), w.clock, left);
  }
  return in_order(std::move(left));
}

}  // namespace

Status validate(const EngineState& state, const EngineConfig& config) {
  PACELINE_RETURN_IF_ERROR(expect_equal("nodes", state.cluster.nodes, config.cluster.nodes));
  PACELINE_RETURN_IF_ERROR(
      expect_equal("threads_per_node", state.cluster.threads_per_node, config.cluster.threads_per_node));
  PACELINE_RETURN_IF_ERROR(expect_equal("total_iterations", state.total_iterations, config.total_iterations));
  PACELINE_RETURN_IF_ERROR(expect_equal("batch_size", state.batch_size, config.batch_size));
  PACELINE_RETURN_IF_ERROR(expect_equal("workers", std::ssize(state.workers), config.cluster.workers()));
  PACELINE_RETURN_IF_ERROR(expect_within("version", state.version.value, kCountMax));
  PACELINE_RETURN_IF_ERROR(expect_within("revision", state.revision.value, config.total_iterations));
  PACELINE_RETURN_IF_ERROR(expect_within("skipped", state.skipped, config.total_iterations));
  PACELINE_RETURN_IF_ERROR(expect_within("dropped", state.dropped, kCountMax));
  PACELINE_RETURN_IF_ERROR(expect_within("lost", state.lost, kCountMax));
  PACELINE_RETURN_IF_ERROR(expect_within("max_grant_gap", state.max_grant_gap.value, kCountMax));
  PACELINE_RETURN_IF_ERROR(expect_within("max_clock_gap", state.max_clock_gap.value, kCountMax));
  PACELINE_RETURN_IF_ERROR(validate_left(state, config));
  PACELINE_RETURN_IF_ERROR(validate_lpr(state.lpr, config));
  PACELINE_RETURN_IF_ERROR(validate_batch_sizes(state.batch_sizes, config));
  PACELINE_RETURN_IF_ERROR(expect_equal("policy.kind", static_cast<std::int64_t>(state.policy.kind),
                                        static_cast<std::int64_t>(config.policy.kind)));
  return make_policy(config.policy)->resume(state);
}

std::int64_t iterations_over(const EngineState& state) { return state.revision.value + state.skipped; }

bool nothing_is_left(const EngineState& state, const EngineConfig& config) {
  if (lists_what_is_left(config)) return state.left.empty();
  return state.version.value * gradients_per_clock(config) >= config.total_iterations;
}

Result<EngineState> with_total_iterations(EngineState state, const EngineConfig& config) {
  const std::int64_t before = state.total_iterations;
  const std::int64_t total = config.total_iterations;
  PACELINE_RETURN_IF_ERROR(expect_within("total_iterations", before, kCountMax));
  EngineConfig saved = config;
  saved.total_iterations = before;
  PACELINE_RETURN_IF_ERROR(validate(state, saved));
  state.total_iterations = total;
  if (total == before) return state;
  const std::int64_t over = iterations_over(state);
  if (over > total) {
    return failed_precondition("total_iterations: got " + std::to_string(total) + ", expected at least the " +
                               std::to_string(over) + " that are done");
  }
  if (!lists_what_is_left(config)) {
    const std::int64_t per_clock = gradients_per_clock(config);
    if (state.version.value * per_clock <= before) return state;
    return failed_precondition("total_iterations: got " + std::to_string(total) + " of a run whose " +
                               std::to_string(before) + " were no multiple of the " +
                               std::to_string(per_clock) +
                               " of a clock; its last clock is done, and cannot be made whole");
  }
  if (total > before) {
    if (!state.left.empty() && state.left.back().first + state.left.back().count == before) {
      state.left.back().count += total - before;
    } else {
      state.left.push_back({before, total - before});
    }
    return state;
  }
  // All that is left below `total` is at least so much, since what is over may lie after it.
  std::int64_t room = total - over;
  for (IterationRange& range : state.left) room -= range.count = std::min(range.count, room);
  std::erase_if(state.left, [](const IterationRange& range) { return range.count == 0; });
  return state;
}

EngineState Engine::state() const {
  PACELINE_ASSERT(run_->started, "a run is saved before its training began");
  const EngineConfig& config = run_->config;
  EngineState state;
  state.cluster = config.cluster;
  state.total_iterations = config.total_iterations;
  state.batch_size = config.batch_size;
  updates_->save(state);
  if (lists_what_is_left(config)) state.left = left(*run_, updates_->waiting());
  for (const WorkerEntry& w : run_->workers) {
    const bool there = w.phase != WorkerPhase::kAbsent && w.phase != WorkerPhase::kGone;
    state.workers.push_back({there, w.staleness, w.starts_over});
  }
  state.policy.kind = config.policy.kind;
  run_->policy->save(state.policy);
  state.batch_sizes = run_->batches.sizes();
  state.dropped = dropped_;
  state.lost = lost_;
  state.max_grant_gap = grants_->max_gap();
  state.max_clock_gap = max_clock_gap_;
  return state;
}

Result<Engine> Engine::resumed(EngineConfig config, const EngineState& state) {
  PACELINE_RETURN_IF_ERROR(validate(state, config));
  Engine engine(std::move(config));
  EngineParts& run = *engine.run_;
  const Clock begin(state.version.value);
  engine.highest_ = begin;
  run.clocks = ClockTable(begin);
  run.share.resume(state.left, begin);
  run.batches.resume(state.batch_sizes, begin);
  const Status policy = run.policy->resume(state);
  PACELINE_ASSERT(policy.is_ok(), policy.message());
  engine.updates_->resume(state);
  engine.grants_->resume(state.max_grant_gap);
  engine.dropped_ = state.dropped;
  engine.lost_ = state.lost;
  engine.max_clock_gap_ = state.max_clock_gap;
  std::set<NodeId> there, all;
  for (std::uint32_t r = 0; r < run.workers.size(); ++r) {
    WorkerEntry& w = run.workers[Rank(r)];
    w.clock = begin;
    w.staleness = state.workers[r].staleness;
    w.starts_over = !state.workers[r].there || state.workers[r].starts_over;
    w.running.reads_no_older_than(state.revision);
    const NodeId node = run.workers.id(Rank(r)).node;
    if (state.workers[r].there) there.insert(node);
    all.insert(node);
  }
  // Where nobody was left the caller says who does not come (Lost).
  engine.gathering_.resume(there.empty() ? std::move(all) : std::move(there));
  return engine;
}

}  // namespace paceline::sync
