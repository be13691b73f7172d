// A trace as a file: the Chrome trace-event format (JSON), which Perfetto (ui.perfetto.dev) and
// chrome://tracing open as it is. A process is a server or a node; a thread is a training thread, the
// authority's decisions, or a shard.
//
//   {"displayTimeUnit":"ms","otherData":{"paceline_trace":1,"events":3,"left_out":0,"origin_ns":81…},
//    "traceEvents":[
//   {"ph":"M","name":"process_name","pid":1000,"tid":0,"args":{"name":"node 0","machine":"6f1c…", …}},
//   {"ph":"X","cat":"phase","name":"COMPUTE_GRADS","ts":12.345,"dur":40250.101,"pid":1000,"tid":1000001,
//    "args":{"clock":7}},
//   {"ph":"i","s":"t","cat":"decision","name":"grant","ts":…,"args":{"worker":"1.2","clock":8, …}}
//   ]}
//
// and what viewers draw beside them (viewer_marks.h), of which nothing is read back.
//
// One event a line (the first line is as far as the [), by which a reader names the place of a fault. ts,
// counted from origin_ns, and dur are µs with three decimals: exact nanoseconds, so that a trace that is
// read back is the one that was written.
//
// Who records writes a part of its own into its run directory (trace-authority.json, trace-shard-0.json,
// trace-node-1.json); merge.h makes trace.json of those that are there.
#pragma once

#include <filesystem>
#include <string>

#include "common/status.h"
#include "common/trace/trace.h"

namespace paceline::trace {

inline constexpr const char* kTraceFile = "trace.json";
inline constexpr const char* kAuthorityPart = "trace-authority.json";
std::string part_name(ShardId shard);
std::string part_name(NodeId node);
// Whether this is the name of a part.
bool is_part(const std::string& file_name);

// What a process says of itself: where its steady clock is known to be the same, and what the wall clock
// says.
Process this_process(ShardId server);
Process this_process(NodeId node);

// Errors: those of common/files/atomic_file.h.
[[nodiscard]] Status write_trace(const std::filesystem::path& file, const Trace& trace);

// Reads one back, whole or a part. Errors: kNotFound; kDataLoss, naming file and line, what is cut off, no
// event of a trace of ours, overlaps another of its thread, goes back in time, has a number that no run has,
// or is beyond kEventsMax lines.
Result<Trace> read_trace_file(const std::filesystem::path& file);
inline constexpr std::int64_t kEventsMax = 20'000'000;

}  // namespace paceline::trace
