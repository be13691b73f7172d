// A trace into lines, by hand: they are numbers and names of ours, and there may be millions.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/ticks.h"
#include "common/trace/trace_file.h"
#include "common/trace/trace_names.h"
#include "common/trace/viewer_marks.h"

namespace paceline::trace {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// 12345 ns: "12.345".
void append_us(std::string& line, std::int64_t ns) {
  char text[32];
  const char* const sign = ns < 0 ? "-" : "";
  const std::uint64_t size = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  std::snprintf(text, sizeof text, "%s%" PRIu64 ".%03" PRIu64, sign, size / 1000, size % 1000);
  line += text;
}

// The members of an event's args, one after another.
class Args {
 public:
  explicit Args(std::string& line) : line_(line) { line_ += ",\"args\":{"; }
  void name(const char* key, const std::string& value) {
    begin(key);
    line_ += '"';
    for (const char c : value) {
      if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20) line_ += c;
    }
    line_ += '"';
  }
  void number(const char* key, std::int64_t value) {
    begin(key);
    line_ += std::to_string(value);
  }
  void real(const char* key, double value) {
    begin(key);
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", value);
    line_ += std::isfinite(value) ? text : "null";
  }
  void us(const char* key, std::int64_t ns) {
    begin(key);
    append_us(line_, ns);
  }
  void threshold(const char* key, Threshold value) {
    if (value.is_infinite()) return name(key, "inf");
    number(key, value.value());
  }
  void end() { line_ += '}'; }

 private:
  void begin(const char* key) {
    line_ += first_ ? "\"" : ",\"";
    line_ += key;
    line_ += "\":";
    first_ = false;
  }
  std::string& line_;
  bool first_ = true;
};

class Writer {
 public:
  Writer(AtomicFile& file, Ticks origin) : file_(file), origin_(origin) {}

  void header(const Trace& trace) {
    text_ = R"({"displayTimeUnit":"ms","otherData":{"paceline_trace":1,"events":)" +
            std::to_string(trace.events()) + ",\"left_out\":" + std::to_string(trace.left_out());
    text_ += ",\"origin_ns\":" + std::to_string(origin_.ns);
    if (trace.first_grant) text_ += ",\"first_grant_ns\":" + std::to_string(trace.first_grant->ns);
    text_ += "},\"traceEvents\":[";
  }
  Status end() {
    text_ += "\n]}\n";
    flush();
    return status_;
  }

  void process(const Process& p) {
    const std::int64_t pid = p.server ? pid_of(*p.server) : pid_of(p.node);
    Args args = metadata("process_name", pid, 0);
    args.name("name", to_string(p));
    args.name("machine", p.machine);
    args.number("wall_less_steady_ns", p.wall_ns);
    args.number("moved_ns", p.moved.count());
    if (p.error) args.number("error_ns", p.error->count());
    close(args);
    Args place = metadata("process_sort_index", pid, 0);
    place.number("sort_index", pid);
    close(place);
  }
  void thread(std::int64_t pid, std::int64_t tid, const std::string& name, std::int64_t left_out) {
    Args args = metadata("thread_name", pid, tid);
    args.name("name", name);
    args.number("left_out", left_out);
    close(args);
  }

  void span(const PhaseSpan& s, std::int64_t pid, std::int64_t tid) {
    Args args = complete("phase", name_of(s.phase), s.begin, s.length, pid, tid);
    args.number("clock", s.clock.value);
    close(args);
  }
  void span(const schedule::PassSpan& s, std::int64_t pid, std::int64_t tid) {
    Args args = complete("stage", schedule::to_string({s.row}).c_str(), s.begin, s.length, pid, tid);
    args.number("clock", s.clock.value);
    args.number("micro_batch", s.row.micro_batch);
    if (s.row.chunk > 0) args.number("chunk", s.row.chunk);
    close(args);
  }
  void span(const BucketSpan& s, std::int64_t pid, std::int64_t tid) {
    Args args = complete("bucket", s.copies ? "copy" : "sum", s.begin, s.length, pid, tid);
    args.number("clock", s.clock.value);
    args.number("bucket", s.bucket);
    args.number("bytes", s.bytes);
    if (s.ahead.count() > 0) args.us("ahead_us", s.ahead.count());
    close(args);
  }
  void span(const ApplySpan& s, std::int64_t pid, std::int64_t tid) {
    Args args = complete("shard", "apply", s.begin, s.length, pid, tid);
    args.number("version", s.version.value);
    args.number("revision", s.revision.value);
    args.number("gradients", s.gradients);
    close(args);
  }
  void decision(const Decision& d) {
    begin("i", "decision", name_of(d.kind));
    text_ += ",\"s\":\"t\",\"ts\":";
    append_us(text_, (d.at - origin_).count());
    Args args = place(pid_of(kAuthority), decisions_tid(kAuthority));
    if (d.worker) args.name("worker", to_string(*d.worker));
    if (d.node) args.number("node", d.node->value);
    if (d.clock) args.number("clock", d.clock->value);
    if (d.min_clock) args.number("min_clock", d.min_clock->value);
    if (d.threshold) args.threshold("threshold", *d.threshold);
    if (d.lpr && std::isfinite(*d.lpr)) args.real("lpr", *d.lpr);
    if (d.version) args.number("version", d.version->value);
    if (d.revision) args.number("revision", d.revision->value);
    if (d.gradients) args.number("gradients", *d.gradients);
    if (d.held) args.us("held_us", d.held->count());
    if (d.release) args.name("released_by", name_of(*d.release));
    if (d.by) args.name("by", to_string(*d.by));
    close(args);
  }
  void point(const CurvePoint& p) {
    Args args = instant("C", p.curve, p.at, pid_of(kAuthority), 0);
    args.real(p.unit, p.value);
    close(args);
  }
  void arrow(const Arrow& a, std::int64_t number) {
    const std::string id = ",\"id\":" + std::to_string(number);
    Args from = instant("s", "let go", a.left, pid_of(a.from.node), tid_of(a.from), id);
    close(from);
    Args to = instant("f", "let go", a.arrived, pid_of(a.to.node), tid_of(a.to), id + ",\"bp\":\"e\"");
    close(to);
  }

 private:
  Args instant(const char* ph, const char* name, Ticks at, std::int64_t pid, std::int64_t tid,
               const std::string& more = "") {
    begin(ph, "viewer", name);
    text_ += more + ",\"ts\":";
    append_us(text_, (at - origin_).count());
    return place(pid, tid);
  }
  void begin(const char* ph, const char* category, const char* name) {
    text_ += first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
    first_ = false;
    text_ += ph;
    if (category != nullptr) (text_ += "\",\"cat\":\"") += category;
    ((text_ += "\",\"name\":\"") += name) += '"';
  }
  Args place(std::int64_t pid, std::int64_t tid) {
    text_ += ",\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid);
    return Args(text_);
  }
  Args metadata(const char* name, std::int64_t pid, std::int64_t tid) {
    begin("M", nullptr, name);
    return place(pid, tid);
  }
  Args complete(const char* category, const char* name, Ticks at, std::chrono::nanoseconds length,
                std::int64_t pid, std::int64_t tid) {
    begin("X", category, name);
    text_ += ",\"ts\":";
    append_us(text_, (at - origin_).count());
    text_ += ",\"dur\":";
    append_us(text_, length.count());
    return place(pid, tid);
  }
  // After an error nothing more is written; end() says it.
  void close(Args& args) {
    args.end();
    text_ += '}';
    if (text_.size() >= kBufferBytes) flush();
  }
  void flush() {
    if (status_.is_ok()) status_ = file_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  AtomicFile& file_;
  const Ticks origin_;
  std::string text_;
  Status status_;
  bool first_ = true;
};

// The earliest of all instants: numbers stay small, and exact where they are read as doubles.
Ticks origin_of(const Trace& trace) {
  std::optional<Ticks> first;
  const auto consider = [&](Ticks at) { first = std::min(first.value_or(at), at); };
  if (!trace.decisions.empty()) consider(trace.decisions.front().at);
  for (const ShardSpans& shard : trace.shards) {
    if (!shard.spans.empty()) consider(shard.spans.front().begin);
  }
  for (const BucketSpans& node : trace.buckets) {
    if (!node.spans.empty()) consider(node.spans.front().begin);
  }
  for (const WorkerSpans& worker : trace.workers) {
    if (!worker.spans.empty()) consider(worker.spans.front().begin);
  }
  for (const StageSpans& stage : trace.stages) {
    if (!stage.spans.empty()) consider(stage.spans.front().begin);
  }
  return first.value_or(Ticks(0));
}

}  // namespace

std::string part_name(ShardId shard) { return "trace-shard-" + to_string(shard) + ".json"; }
std::string part_name(NodeId node) { return "trace-node-" + to_string(node) + ".json"; }

bool is_part(const std::string& file_name) {
  if (file_name == kAuthorityPart) return true;
  for (const std::string begin : {"trace-shard-", "trace-node-"}) {
    if (!file_name.starts_with(begin) || !file_name.ends_with(".json")) continue;
    const std::string digits = file_name.substr(begin.size(), file_name.size() - begin.size() - 5);
    return !digits.empty() && digits.size() < 10 &&
           digits.find_first_not_of("0123456789") == std::string::npos;
  }
  return false;
}

namespace {

Process with_clocks(Process process) {
  // One boot of one machine has one steady clock, in all its containers.
  if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "r"); file != nullptr) {
    char id[64] = {};
    const std::size_t read = std::fread(id, 1, sizeof id - 1, file);
    std::fclose(file);
    process.machine.assign(id, read);
    while (!process.machine.empty() && process.machine.back() == '\n') process.machine.pop_back();
  }
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  process.wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - steady_now().ns;
  return process;
}

}  // namespace

Process this_process(ShardId server) {
  Process process;
  process.server = server;
  return with_clocks(std::move(process));
}

Process this_process(NodeId node) {
  Process process;
  process.node = node;
  return with_clocks(std::move(process));
}

Status write_trace(const std::filesystem::path& file, const Trace& trace) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::create(file));
  Writer writer(out, origin_of(trace));
  writer.header(trace);
  for (const Process& process : trace.processes) writer.process(process);
  if (!trace.decisions.empty() || trace.decisions_left_out > 0) {
    writer.thread(pid_of(kAuthority), decisions_tid(kAuthority), "decisions", trace.decisions_left_out);
  }
  for (const Decision& decision : trace.decisions) writer.decision(decision);
  for (const CurvePoint& point : curves_of(trace)) writer.point(point);
  for (const ShardSpans& shard : trace.shards) {
    writer.thread(pid_of(shard.shard), shard_tid(shard.shard), "shard " + to_string(shard.shard),
                  shard.left_out);
    for (const ApplySpan& s : shard.spans) writer.span(s, pid_of(shard.shard), shard_tid(shard.shard));
  }
  for (const WorkerSpans& worker : trace.workers) {
    const std::int64_t pid = pid_of(worker.worker.node);
    writer.thread(pid, tid_of(worker.worker), "worker " + to_string(worker.worker), worker.left_out);
    for (const PhaseSpan& s : worker.spans) writer.span(s, pid, tid_of(worker.worker));
  }
  for (const StageSpans& stage : trace.stages) {
    const std::int64_t pid = pid_of(stage.node);
    writer.thread(pid, passes_tid(stage.node), "passes", stage.left_out);
    for (const schedule::PassSpan& s : stage.spans) writer.span(s, pid, passes_tid(stage.node));
  }
  for (const BucketSpans& node : trace.buckets) {
    const std::int64_t pid = pid_of(node.node);
    writer.thread(pid, buckets_tid(node.node), "buckets", node.left_out);
    for (const BucketSpan& s : node.spans) writer.span(s, pid, buckets_tid(node.node));
  }
  std::int64_t number = 0;
  for (const Arrow& arrow : arrows_of(trace)) writer.arrow(arrow, ++number);
  PACELINE_RETURN_IF_ERROR(writer.end());
  return out.commit();
}

}  // namespace paceline::trace
