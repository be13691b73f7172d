#include "common/checkpoint/engine_state.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "common/config/names.h"
#include "proto/checkpoint_engine.pb.h"

namespace paceline::checkpoint {
namespace {

constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kNameShown = 32;  // of a name that is none

Status unexpected(const char* field, std::int64_t got, const std::string& expected) {
  return data_loss(std::string("engine state: ") + field + ": got " + std::to_string(got) + ", expected " +
                   expected);
}

void put_left(const sync::IterationRanges& left, proto::EngineState& message) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    const std::int64_t after = i == 0 ? 0 : left[i - 1].first + left[i - 1].count;
    message.add_left_gaps(left[i].first - after);
    message.add_left_counts(left[i].count);
  }
}

Result<sync::IterationRanges> get_left(const proto::EngineState& message) {
  if (message.left_gaps_size() != message.left_counts_size()) {
    return unexpected("left", message.left_counts_size(),
                      std::to_string(message.left_gaps_size()) + " counts, one for each gap");
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  sync::IterationRanges left;
  left.reserve(static_cast<std::size_t>(message.left_gaps_size()));
  std::int64_t after = 0;
  for (int i = 0; i < message.left_gaps_size(); ++i) {
    const std::int64_t gap = message.left_gaps(i);
    const std::int64_t count = message.left_counts(i);
    if (gap < 0 || gap > kMost - after) return unexpected("left gap", gap, "0 or more, within 64 bits");
    if (count < 1 || count > kMost - after - gap) {
      return unexpected("left count", count, "1 or more, within 64 bits");
    }
    left.push_back({after + gap, count});
    after += gap + count;
  }
  return left;
}

void put_policy(const sync::PolicyState& policy, proto::Policy& message) {
  message.set_kind(name_of(policy.kind));
  message.set_threshold(policy.threshold);
  message.set_stage(static_cast<std::uint32_t>(policy.stage));
  message.set_stage_begun_at(policy.stage_begun_at.value);
  if (!policy.stage_window) return;
  message.mutable_stage_window()->set_loss_mean(policy.stage_window->loss_mean);
  message.mutable_stage_window()->set_accuracy(policy.stage_window->accuracy);
}

Result<sync::PolicyState> get_policy(const proto::Policy& message) {
  const std::optional<PolicyKind> kind = named<PolicyKind>(message.kind());
  if (!kind) {
    return data_loss("engine state: policy.kind: got '" + message.kind().substr(0, kNameShown) +
                     "', expected a policy");
  }
  sync::PolicyState policy;
  policy.kind = *kind;
  policy.threshold = message.threshold();
  policy.stage = message.stage();
  policy.stage_begun_at = Version(message.stage_begun_at());
  if (message.has_stage_window()) {
    policy.stage_window =
        sync::StageWindow{message.stage_window().loss_mean(), message.stage_window().accuracy()};
  }
  return policy;
}

void put_lpr(const sync::LprState& lpr, proto::Lpr& message) {
  message.set_window_clocks(lpr.window_clocks);
  for (const Metric& window : lpr.open) {
    proto::Metric& open = *message.add_open();
    open.set_loss_sum(window.loss_sum);
    open.set_correct(window.correct);
    open.set_samples(window.samples);
  }
  if (lpr.previous) message.set_previous(*lpr.previous);
}

sync::LprState get_lpr(const proto::Lpr& message) {
  sync::LprState lpr;
  lpr.window_clocks = message.window_clocks();
  for (const proto::Metric& open : message.open()) {
    lpr.open.push_back({open.loss_sum(), open.correct(), open.samples()});
  }
  if (message.has_previous()) lpr.previous = message.previous();
  return lpr;
}

}  // namespace

std::string to_bytes(const sync::EngineState& state) {
  proto::EngineState message;
  message.set_format(kFormat);
  message.set_nodes(state.cluster.nodes);
  message.set_threads_per_node(state.cluster.threads_per_node);
  message.set_total_iterations(state.total_iterations);
  message.set_batch_size(state.batch_size);
  message.set_version(state.version.value);
  message.set_revision(state.revision.value);
  message.set_skipped(state.skipped);
  put_left(state.left, message);
  for (const sync::WorkerState& worker : state.workers) {
    proto::Worker& w = *message.add_workers();
    w.set_there(worker.there);
    w.set_staleness(worker.staleness);
    w.set_starts_over(worker.starts_over);
  }
  put_policy(state.policy, *message.mutable_policy());
  put_lpr(state.lpr, *message.mutable_lpr());
  for (const std::int64_t size : state.batch_sizes) message.add_batch_sizes(size);
  message.set_dropped(state.dropped);
  message.set_lost(state.lost);
  message.set_max_grant_gap(state.max_grant_gap.value);
  message.set_max_clock_gap(state.max_clock_gap.value);
  return message.SerializeAsString();
}

Result<sync::EngineState> engine_state_from_bytes(std::string_view bytes) {
  proto::EngineState message;
  const bool fits = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (!fits || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return data_loss("engine state: " + std::to_string(bytes.size()) + " bytes that are no such message");
  }
  if (message.format() != kFormat) {
    return unexpected("format", message.format(), std::to_string(kFormat) + ": another build wrote it");
  }
  const std::uint64_t workers = std::uint64_t{message.nodes()} * message.threads_per_node();
  if (static_cast<std::uint64_t>(message.workers_size()) != workers) {
    return unexpected("workers", message.workers_size(), std::to_string(workers) + ", nodes x threads");
  }
  sync::EngineState state;
  state.cluster = {message.nodes(), message.threads_per_node()};
  state.total_iterations = message.total_iterations();
  state.batch_size = message.batch_size();
  state.version = Version(message.version());
  state.revision = Revision(message.revision());
  state.skipped = message.skipped();
  PACELINE_ASSIGN_OR_RETURN(state.left, get_left(message));
  for (const proto::Worker& worker : message.workers())
    state.workers.push_back({worker.there(), worker.staleness(), worker.starts_over()});
  PACELINE_ASSIGN_OR_RETURN(state.policy, get_policy(message.policy()));
  state.lpr = get_lpr(message.lpr());
  state.batch_sizes.assign(message.batch_sizes().begin(), message.batch_sizes().end());
  state.dropped = message.dropped();
  state.lost = message.lost();
  state.max_grant_gap = Staleness(message.max_grant_gap());
  state.max_clock_gap = Staleness(message.max_clock_gap());
  return state;
}

}  // namespace paceline::checkpoint
