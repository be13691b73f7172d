#include "common/trace/merge.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "common/trace/align.h"
#include "common/trace/trace_file.h"

namespace paceline::trace {
namespace {

namespace fs = std::filesystem;

// Its process's other part is of shard 0, and has no decisions.
bool is_authority(const Trace& part) {
  return part.shards.empty() && !part.processes.empty() && part.processes.front().server == kAuthority;
}

void move_by(Trace& part, const Alignment& alignment) {
  for (WorkerSpans& worker : part.workers) {
    for (PhaseSpan& span : worker.spans) span.begin = span.begin + alignment.shift;
  }
  for (StageSpans& stage : part.stages) {
    for (schedule::PassSpan& span : stage.spans) span.begin = span.begin + alignment.shift;
  }
  for (BucketSpans& node : part.buckets) {
    for (BucketSpan& span : node.spans) span.begin = span.begin + alignment.shift;
  }
  for (ShardSpans& shard : part.shards) {
    for (ApplySpan& span : shard.spans) span.begin = span.begin + alignment.shift;
  }
  for (Process& process : part.processes) {
    process.moved = alignment.shift;
    process.error = alignment.error;
  }
}

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Servers first, then nodes, each by number.
bool in_front(const Process& a, const Process& b) {
  if (a.server.has_value() != b.server.has_value()) return a.server.has_value();
  return a.server ? *a.server < *b.server : a.node < b.node;
}

}  // namespace

Trace joined(std::vector<Trace> parts) {
  const auto authority = std::find_if(parts.begin(), parts.end(), is_authority);
  // Without the authority's nothing bounds anything: the first part's clock, and wall clocks to it.
  const auto first =
      std::find_if(parts.begin(), parts.end(), [](const Trace& part) { return !part.processes.empty(); });
  const auto base = authority != parts.end() ? authority : first;
  if (base != parts.end()) {
    const Process decides = base->processes.front();
    for (Trace& part : parts) {
      if (&part == &*base || part.processes.empty()) continue;
      move_by(part, alignment(*base, decides, part, part.processes.front()));
    }
  }
  Trace whole;
  for (Trace& part : parts) {
    append(whole.processes, part.processes);
    append(whole.workers, part.workers);
    append(whole.stages, part.stages);
    append(whole.buckets, part.buckets);
    append(whole.shards, part.shards);
    append(whole.decisions, part.decisions);
    whole.decisions_left_out += part.decisions_left_out;
    if (part.first_grant) whole.first_grant = part.first_grant;
  }
  std::stable_sort(whole.processes.begin(), whole.processes.end(), in_front);
  const auto same = [](const Process& a, const Process& b) { return !in_front(a, b) && !in_front(b, a); };
  whole.processes.erase(std::unique(whole.processes.begin(), whole.processes.end(), same),
                        whole.processes.end());
  std::sort(whole.workers.begin(), whole.workers.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  std::sort(whole.stages.begin(), whole.stages.end(),
            [](const auto& a, const auto& b) { return a.node < b.node; });
  std::sort(whole.buckets.begin(), whole.buckets.end(),
            [](const auto& a, const auto& b) { return a.node < b.node; });
  std::sort(whole.shards.begin(), whole.shards.end(),
            [](const auto& a, const auto& b) { return a.shard < b.shard; });
  return whole;
}

namespace {

Result<std::vector<fs::path>> parts_in(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(run, error), end; !error && it != end; it.increment(error)) {
    if (is_part(it->path().filename().string())) files.push_back(it->path());
  }
  if (error) return not_found("cannot read the run directory " + run.string() + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

Result<Trace> read_parts(const fs::path& run) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<fs::path> files, parts_in(run));
  if (files.empty()) {
    return not_found(run.string() + ": no trace: got none of trace-authority.json, trace-node-0.json, …, " +
                     "expected those of a run with run.trace: true");
  }
  std::vector<Trace> parts;
  for (const fs::path& file : files) {
    PACELINE_ASSIGN_OR_RETURN(Trace part, read_trace_file(file));
    parts.push_back(std::move(part));
  }
  return joined(std::move(parts));
}

}  // namespace

Result<Trace> merge_parts(const fs::path& run) {
  PACELINE_ASSIGN_OR_RETURN(Trace whole, read_parts(run));
  PACELINE_RETURN_IF_ERROR(write_trace(run / kTraceFile, whole));
  return whole;
}

Result<Trace> read_run(const fs::path& run) {
  std::error_code ignored;
  const fs::path whole = run / kTraceFile;
  if (!fs::exists(whole, ignored)) return read_parts(run);
  Result<Trace> recorded = read_trace_file(whole);
  if (recorded.status().code() != StatusCode::kDataLoss) return recorded;
  // A server that was killed while it wrote the whole has its parts beside it.
  const Result<std::vector<fs::path>> parts = parts_in(run);
  if (!parts.is_ok() || parts->empty()) return recorded;
  return data_loss(recorded.status().message() + "; its parts are there: paceline trace " + run.string() +
                   " makes it again");
}

}  // namespace paceline::trace
