// How many events each recorder of a run may keep, of the run.trace_events that all of them together may:
// whatever the cluster, a trace takes the same memory and the same disk. Half are the workers', a third the
// authority's, the rest the shards'. An iteration makes some eight phases of its worker, four decisions
// (report, hold, grant, apply), and one application in each shard, so the workers' are the first to run out.
//
// Worked example: 500,000 events, 16 workers, 2 shards: 15,625 phases of each worker, its newest 2,000
// iterations; 166,666 decisions, of the newest 2,600; 41,666 applications of each shard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace paceline::trace {

inline std::size_t events_of_each(std::int64_t events, std::uint32_t recorders) {
  return static_cast<std::size_t>(std::max<std::int64_t>(events / recorders, 1));
}
inline std::size_t worker_events(std::int64_t all, std::uint32_t workers) {
  return events_of_each(all / 2, workers);
}
inline std::size_t decision_events(std::int64_t all) { return events_of_each(all / 3, 1); }
inline std::size_t shard_events(std::int64_t all, std::uint32_t shards) {
  return events_of_each(all / 6, shards);
}

}  // namespace paceline::trace
