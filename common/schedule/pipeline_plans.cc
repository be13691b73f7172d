// The schedules of a pipeline as one table (pipeline.h): of each, a stage's rows, how many micro-batches its chunks
// keep, and for which numbers there is a plan; and what is computed again where there is no room for all activations.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/schedule/pipeline.h"

namespace paceline::schedule {
namespace {

using Pass = PipelineRow::Pass;

// K, M and v.
struct Numbers {
  std::uint32_t stages = 1;
  std::uint32_t micro_batches = 1;
  std::uint32_t chunks = 1;
};

// ---- gpipe

PipelineRows gpipe_rows(const Numbers& of, std::uint32_t) {
  PipelineRows rows;
  for (std::uint32_t m = 0; m < of.micro_batches; ++m) rows.push_back({Pass::kForward, m});
  for (std::uint32_t m = of.micro_batches; m-- > 0;) rows.push_back({Pass::kBackward, m});
  return rows;
}

std::int64_t gpipe_keeps(const Numbers& of, std::uint32_t, std::uint32_t) { return of.micro_batches; }

// ---- 1f1b

std::int64_t turning_keeps(const Numbers& of, std::uint32_t stage, std::uint32_t) {
  return std::min(of.stages - stage, of.micro_batches);
}

PipelineRows turning_rows(const Numbers& of, std::uint32_t stage) {
  const std::uint32_t ahead = std::min(of.stages - stage, of.micro_batches);
  PipelineRows rows;
  std::uint32_t forward = 0;
  for (; forward < ahead; ++forward) rows.push_back({Pass::kForward, forward});
  for (std::uint32_t m = 0; m < of.micro_batches; ++m) {
    rows.push_back({Pass::kBackward, m});
    if (forward < of.micro_batches) rows.push_back({Pass::kForward, forward++});
  }
  return rows;
}

// ---- interleaved: K micro-batches through each chunk in turn, forward from the first chunk on, back from the last on.

// Pass number `i` in one direction, of v M.
PipelineRow turn(const Numbers& of, Pass pass, std::int64_t i) {
  const std::int64_t round = std::int64_t{of.stages} * of.chunks;
  const auto chunk = static_cast<std::uint32_t>(i % round / of.stages);
  return {pass, static_cast<std::uint32_t>(i / round * of.stages + i % of.stages),
          pass == Pass::kForward ? chunk : of.chunks - 1 - chunk};
}

// So many passes forward before the first one back: what comes to a stage's last chunk, and the way there and back.
std::int64_t interleaved_ahead(const Numbers& of, std::uint32_t stage) {
  const std::int64_t chunks_in_front = std::int64_t{of.chunks - 1} * of.stages;
  const std::int64_t way = 2 * std::int64_t{of.stages - 1 - stage};
  return std::min(chunks_in_front + way, std::int64_t{of.chunks} * of.micro_batches);
}

PipelineRows interleaved_rows(const Numbers& of, std::uint32_t stage) {
  const std::int64_t all = std::int64_t{of.chunks} * of.micro_batches;
  const std::int64_t ahead = interleaved_ahead(of, stage);
  PipelineRows rows;
  for (std::int64_t i = 0; i < all + ahead; ++i) {
    if (i < all) rows.push_back(turn(of, Pass::kForward, i));
    if (i >= ahead) rows.push_back(turn(of, Pass::kBackward, i - ahead));
  }
  return rows;
}

// Of the first `passes` in a direction, those of the chunk that has its turn as number `turn`.
std::int64_t turns_within(const Numbers& of, std::int64_t passes, std::uint32_t turn) {
  const std::int64_t stages = of.stages;
  const std::int64_t round = stages * of.chunks;
  return passes / round * stages + std::clamp<std::int64_t>(passes % round - turn * stages, 0, stages);
}

std::int64_t interleaved_keeps(const Numbers& of, std::uint32_t stage, std::uint32_t chunk) {
  const std::int64_t all = std::int64_t{of.chunks} * of.micro_batches;
  const std::int64_t ahead = interleaved_ahead(of, stage);
  std::int64_t most = 0;
  for (std::int64_t back = 0; back < all; ++back) {
    const std::int64_t forward = turns_within(of, std::min(all, back + ahead + 1), chunk);
    most = std::max(most, forward - turns_within(of, back, of.chunks - 1 - chunk));
  }
  return most;
}

// ---- the table

struct Schedule {
  PipelineKind kind;
  bool has_chunks;  // several of a stage, and micro-batches that are a multiple of the stages
  PipelineRows (*rows)(const Numbers& of, std::uint32_t stage);
  std::int64_t (*keeps)(const Numbers& of, std::uint32_t stage, std::uint32_t chunk);
};
constexpr Schedule kSchedules[] = {
    {PipelineKind::kGpipe, false, gpipe_rows, gpipe_keeps},
    {PipelineKind::kOneForwardOneBackward, false, turning_rows, turning_keeps},
    {PipelineKind::kInterleaved, true, interleaved_rows, interleaved_keeps},
};

const Schedule& schedule_of(PipelineKind kind) {
  const auto found =
      std::ranges::find_if(kSchedules, [kind](const Schedule& one) { return one.kind == kind; });
  PACELINE_ASSERT(found != std::ranges::end(kSchedules), std::to_string(static_cast<int>(kind)));
  return *found;
}

// Row by row with room for `most` micro-batches' activations of the chunk. Where there is none the one goes whose
// backward pass is the furthest away. What went at any time is dropped after its forward pass, where nothing has used
// it yet.
PipelineRows recomputed(const PipelineRows& rows, std::uint32_t chunk, std::int64_t most) {
  std::map<std::uint32_t, std::size_t> backward_at;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].chunk == chunk && rows[i].pass == Pass::kBackward) backward_at[rows[i].micro_batch] = i;
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
    const bool is_own = row.chunk == chunk;
    if (is_own && row.pass == Pass::kForward) take(row.micro_batch);
    if (is_own && row.pass == Pass::kBackward) {
      if (!there.contains(row.micro_batch)) {
        take(row.micro_batch);
        all.push_back({Pass::kRecompute, row.micro_batch, chunk});
      }
      there.erase(row.micro_batch);
    }
    all.push_back(row);
  }
  return all;
}

}  // namespace

Status check_has_plan(PipelineKind kind, std::uint32_t stages, std::int64_t micro_batches) {
  if (!schedule_of(kind).has_chunks || micro_batches % stages == 0) return Status::ok();
  return invalid_argument("got " + std::to_string(micro_batches) + ", expected a multiple of " +
                          std::to_string(stages) + " stages");
}

PipelinePlan plan_pipeline(PipelineKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                           std::span<const std::int64_t> activations_max, std::uint32_t chunks) {
  const Schedule& schedule = schedule_of(kind);
  const std::size_t all_chunks = std::size_t{stages} * chunks;
  PACELINE_ASSERT(stages >= 1 && micro_batches >= 1 && chunks >= 1, "a pipeline of nothing");
  PACELINE_ASSERT(schedule.has_chunks || chunks == 1, "a schedule of one chunk a stage");
  PACELINE_ASSERT(check_has_plan(kind, stages, micro_batches).is_ok(), std::to_string(micro_batches));
  PACELINE_ASSERT(activations_max.empty() || activations_max.size() == all_chunks, "a bound for each chunk");
  const Numbers of{stages, micro_batches, chunks};
  PipelinePlan plan;
  plan.micro_batches = micro_batches;
  plan.chunks = chunks;
  plan.bounds.resize(all_chunks);
  for (std::uint32_t s = 0; s < stages; ++s) {
    PipelineRows rows = schedule.rows(of, s);
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const std::size_t at = s + std::size_t{chunk} * stages;
      const std::int64_t all = schedule.keeps(of, s, chunk);
      const std::int64_t most = activations_max.empty() ? all : std::min(all, activations_max[at]);
      PACELINE_ASSERT(most >= 1, "a stage has the activations that it computes with");
      if (most < all) rows = recomputed(rows, chunk, most);
      plan.bounds[at] = {all, most};
    }
    plan.stages.push_back(std::move(rows));
  }
  return plan;
}

}  // namespace paceline::schedule
