// `paceline report --format csv` and `json`: the numbers of its tables for programs, in full precision.
#pragma once

#include <span>
#include <string>

#include "common/report/finished_run.h"

namespace paceline {

// One run: a row for each phase of each node and of all ("all"), what no phase owns as `unaccounted`:
//
//   run,node,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds
//   runs/a,0,BATCH,400,0.812345678,2.030864195,1.984,2.375,0.040617284,0.000000000
//
// Several: a row for each, in seconds for each worker that reported; changes are left to the reader, and what
// is wrong with a run is not in it (warnings_of()):
//
//   run,status,simulated,policy,nodes,threads_per_node,workers_reported,iterations,version,threshold,
//   wall_seconds,barrier_seconds,network_seconds,compute_seconds,test_accuracy,test_loss,
//   BATCH_seconds,...,unaccounted_seconds
//
// A cell is empty where the directory does not say it; an infinite threshold is inf. A cell with a comma, a
// quote or a line end stands in quotes (RFC 4180).
std::string report_csv(std::span<const FinishedRun> runs);

// One run or several alike:
//
// {"runs": [{"run": "runs/a", "finished": true, "comparable": true, "differs_in": [...], "caveats": [...],
//            "missing": [...], "summary": as in summary.json, null in an unfinished run,
//            "status", "policy", "version", "wall_seconds", "test_accuracy", "workers_reported",
//            "seconds_of_a_worker": {"barrier", "network", "compute", "total",
//                                    "phases": {"BATCH": s, ..., "unaccounted": s}},
//            "nodes": [{"node": 0, "workers": 4, "wall_seconds",
//                       "phases": {"BATCH": {"count", "total_seconds", "mean_ms", "p50_ms", "p95_ms",
//                                            "share", "hidden_seconds"}, ...},
//                       "unaccounted_seconds"}],
//            "all": as a node}]}
//
// What an unfinished run's directory does not say is null. differs_in: the keys in which a run's work is
// another than the first one's; such a run is not comparable.
std::string report_json(std::span<const FinishedRun> runs);

}  // namespace paceline
