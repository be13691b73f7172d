// Lines into a trace. Anybody may have written them: each is looked at.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/files/shallow_json.h"
#include "common/text/printable.h"
#include "common/trace/trace_file.h"
#include "common/trace/trace_names.h"

namespace paceline::trace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLineBytesMax = 4096;  // of ours none has a tenth

// What numbers may be, so that no sum or difference of those that are read overflows, here or in who reads.
constexpr std::int64_t kInstantMax = std::int64_t{1} << 60;  // ns, either way: 36 years of uptime
constexpr std::int64_t kWallMax = std::int64_t{1} << 62;     // ns since 1970: until 2116
constexpr std::int64_t kCountMax = std::int64_t{1} << 53;    // clocks, versions, thread numbers
constexpr std::int64_t kMicroBatchMax = std::int64_t{1} << 31;
constexpr std::int64_t kSummedMax = std::int64_t{1} << 36;  // counts that are summed over all lines
constexpr std::chrono::nanoseconds kWorkedMax(std::int64_t{1} << 61);  // of all threads together

// "a trace of ours" is what the line is not: found out where its parts are taken.
struct Wrong {
  std::string what;
};

std::int64_t integer_of(const Json& value, std::int64_t least, std::int64_t most) {
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kWallMax);
  if (value.is_number_integer() && !too_large) {
    const auto got = value.get<std::int64_t>();
    if (got >= least && got <= most) return got;
  }
  throw Wrong{value.dump().substr(0, 40) + ", expected a whole number from " + std::to_string(least) +
              " to " + std::to_string(most)};
}

std::int64_t ns_of(const Json& us) {
  const double ns = us.get<double>() * 1000.0;
  if (!(std::abs(ns) < 9e15)) throw Wrong{"a time of " + us.dump() + " us, expected one of a run"};
  return std::llround(ns);
}

WorkerId worker_of(const std::string& text) {
  if (const auto worker = parse_worker(text)) return *worker;
  throw Wrong{"a worker named \"" + quotable(text) + "\", expected NODE.THREAD"};
}

Threshold threshold_of(const Json& value) {
  if (value.is_string() && value.get<std::string>() == "inf") return Threshold::infinite();
  return Threshold(integer_of(value, 0, kCountMax));
}

schedule::PipelineRow::Pass pass_of(const std::string& name) {
  using Pass = schedule::PipelineRow::Pass;
  for (const Pass pass : {Pass::kForward, Pass::kRecompute, Pass::kBackward}) {
    if (name.substr(0, 1) == schedule::to_string({{pass, 0}}).substr(0, 1)) return pass;
  }
  throw Wrong{"a pass \"" + quotable(name) + "\", expected F, R or B and a number"};
}

std::int64_t count_of(const Json& value) { return integer_of(value, 0, kSummedMax); }
std::int64_t instant_of(const Json& value) { return integer_of(value, -kInstantMax, kInstantMax); }
Clock clock_of(const Json& value) { return Clock(integer_of(value, 0, kCountMax)); }

// A version or a revision; kNoVersion is one.
template <typename T>
T number_as(const Json& value) {
  return T(integer_of(value, -1, kCountMax));
}

// One of viewer_marks.h, as the writer begins it: there may be as many as a quarter of all lines, and nothing
// of them is read.
bool is_for_viewers(const std::string& line) {
  for (const char* begin : {"{\"ph\":\"C\"", "{\"ph\":\"s\"", "{\"ph\":\"f\""}) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

class Reader {
 public:
  // Throws Wrong or Json::exception.
  void header(const std::string& line) {
    const Json json = parse_shallow<Json>(line + "]}");
    const Json& other = json.at("otherData");
    if (const std::int64_t version = integer_of(other.at("paceline_trace"), 0, kCountMax); version != 1) {
      throw Wrong{"a trace of format " + std::to_string(version) + ", expected 1"};
    }
    expected_ = integer_of(other.at("events"), 0, kCountMax);
    origin_ = Ticks(instant_of(other.at("origin_ns")));
    if (other.contains("first_grant_ns")) trace_.first_grant = Ticks(instant_of(other.at("first_grant_ns")));
  }

  void event(const std::string& line) {
    if (++lines_ > kEventsMax) throw Wrong{"more than " + std::to_string(kEventsMax) + " lines"};
    if (is_for_viewers(line)) return;
    const Json json = parse_shallow<Json>(line);
    const std::string ph = json.at("ph").get<std::string>();
    const std::int64_t pid = integer_of(json.at("pid"), 0, kCountMax);
    const std::int64_t tid = integer_of(json.at("tid"), 0, kCountMax);
    const std::string name = json.at("name").get<std::string>();
    const Json& args = json.at("args");
    if (ph == "M") return metadata(name, pid, tid, args);
    ++events_;
    if (ph == "X") return span(json, name, pid, tid, args);
    if (ph == "i") return decision(json, name, args);
    throw Wrong{"an event of kind \"" + quotable(ph) + "\", expected M, X or i"};
  }

  std::int64_t events() const { return events_; }
  std::int64_t expected() const { return expected_; }

  Trace take() {
    for (auto& [worker, spans] : workers_) trace_.workers.push_back(std::move(spans));
    for (auto& [node, spans] : stages_) trace_.stages.push_back(std::move(spans));
    for (auto& [node, spans] : buckets_) trace_.buckets.push_back(std::move(spans));
    for (auto& [shard, spans] : shards_) trace_.shards.push_back(std::move(spans));
    return std::move(trace_);
  }

 private:
  void metadata(const std::string& name, std::int64_t pid, std::int64_t tid, const Json& args) {
    if (name == "process_name") {
      Process process;
      process.server = server_at(pid);
      if (!process.server) process.node = node_of(pid);
      process.machine = args.at("machine").get<std::string>();
      process.wall_ns = integer_of(args.at("wall_less_steady_ns"), -kInstantMax, kWallMax);
      process.moved = std::chrono::nanoseconds(integer_of(args.at("moved_ns"), -kWallMax, kWallMax));
      process.error.reset();
      if (args.contains("error_ns")) {
        process.error = std::chrono::nanoseconds(integer_of(args.at("error_ns"), 0, kWallMax));
      }
      trace_.processes.push_back(std::move(process));
    } else if (name == "thread_name") {
      const std::int64_t left_out = count_of(args.at("left_out"));
      if (const auto worker = worker_at(pid, tid)) {
        spans_of(*worker).left_out = left_out;
      } else if (const auto stage = node_with(passes_tid, pid, tid)) {
        of_node(stages_, *stage).left_out = left_out;
      } else if (const auto node = node_with(buckets_tid, pid, tid)) {
        of_node(buckets_, *node).left_out = left_out;
      } else if (const auto server = server_at(pid); server && tid == shard_tid(*server)) {
        spans_of(*server).left_out = left_out;
      } else if (tid == decisions_tid(kAuthority)) {
        trace_.decisions_left_out = left_out;
      }
    }
  }

  static NodeId node_of(std::int64_t pid) {
    const std::optional<NodeId> node = node_at(pid);
    if (!node) throw Wrong{"process " + std::to_string(pid) + ", expected one of a server or a node"};
    return *node;
  }
  WorkerSpans& spans_of(WorkerId worker) {
    WorkerSpans& spans = workers_[worker];
    spans.worker = worker;
    return spans;
  }
  // The node of which this is the row that `row_of` names: passes_tid or buckets_tid.
  static std::optional<NodeId> node_with(std::int64_t (*row_of)(NodeId), std::int64_t pid, std::int64_t tid) {
    const std::optional<NodeId> node = node_at(pid);
    return node && tid == row_of(*node) ? node : std::nullopt;
  }
  template <typename Spans>
  static Spans& of_node(std::map<NodeId, Spans>& all, NodeId node) {
    Spans& spans = all[node];
    spans.node = node;
    return spans;
  }
  ShardSpans& spans_of(ShardId shard) {
    ShardSpans& spans = shards_[shard];
    spans.shard = shard;
    return spans;
  }
  Ticks at(const Json& json) const { return origin_ + std::chrono::nanoseconds(ns_of(json.at("ts"))); }

  template <typename Spans, typename Span>
  void append(Spans& spans, const Span& next, const std::string& whose) {
    if (next.length.count() < 0) throw Wrong{"a length below 0"};
    const Ticks before = spans.empty() ? next.begin : spans.back().begin + spans.back().length;
    if (next.begin < before) throw Wrong{"it begins before the one before it of " + whose + " has ended"};
    worked_ += next.begin + next.length - before;
    if (worked_ > kWorkedMax) throw Wrong{"more time of all threads than any run has"};
    spans.push_back(next);
  }

  void span(const Json& json, const std::string& name, std::int64_t pid, std::int64_t tid, const Json& args) {
    const std::chrono::nanoseconds length(ns_of(json.at("dur")));
    if (const auto worker = worker_at(pid, tid)) {
      const auto* const found = std::find(kPhaseNames.begin(), kPhaseNames.end(), name);
      if (found == kPhaseNames.end())
        throw Wrong{"\"" + quotable(name) + "\", expected one of the nine phases"};
      append(spans_of(*worker).spans,
             PhaseSpan{at(json), length, clock_of(args.at("clock")),
                       static_cast<Phase>(found - kPhaseNames.begin())},
             "worker " + to_string(*worker));
      return;
    }
    if (const auto node = node_with(passes_tid, pid, tid)) {
      append(of_node(stages_, *node).spans,
             schedule::PassSpan{
                 at(json),
                 length,
                 clock_of(args.at("clock")),
                 {pass_of(name),
                  static_cast<std::uint32_t>(integer_of(args.at("micro_batch"), 0, kMicroBatchMax)),
                  args.contains("chunk")
                      ? static_cast<std::uint32_t>(integer_of(args.at("chunk"), 0, kMicroBatchMax))
                      : 0U}},
             "the stage of node " + to_string(*node));
      return;
    }
    if (const auto node = node_with(buckets_tid, pid, tid)) {
      if (name != "sum" && name != "copy") {
        throw Wrong{"a bucket's \"" + quotable(name) + "\", expected sum or copy"};
      }
      const std::chrono::nanoseconds ahead(args.contains("ahead_us") ? ns_of(args.at("ahead_us")) : 0);
      if (ahead.count() < 0) throw Wrong{"a bucket that was begun after its begin"};
      append(of_node(buckets_, *node).spans,
             BucketSpan{at(json), length, clock_of(args.at("clock")), count_of(args.at("bucket")),
                        integer_of(args.at("bytes"), 0, kCountMax), name == "copy", ahead},
             "the buckets of node " + to_string(*node));
      return;
    }
    const auto server = server_at(pid);
    if (!server || tid != shard_tid(*server)) {
      throw Wrong{"thread " + std::to_string(tid) + " of process " + std::to_string(pid) +
                  ", expected a worker's or a shard's"};
    }
    append(spans_of(*server).spans,
           ApplySpan{at(json), length, number_as<Version>(args.at("version")),
                     number_as<Revision>(args.at("revision")), count_of(args.at("gradients"))},
           "shard " + to_string(*server));
  }

  void decision(const Json& json, const std::string& name, const Json& args) {
    const auto kind = decision_named(name);
    if (!kind) throw Wrong{"a decision \"" + quotable(name) + "\", expected one that the authority makes"};
    Decision d{.at = at(json), .kind = *kind};
    const auto take = [&](const char* key, auto& field, const auto& read) {
      if (args.contains(key)) field = read(args.at(key));
    };
    const auto worker = [](const Json& v) { return worker_of(v.get<std::string>()); };
    take("worker", d.worker, worker);
    take("by", d.by, worker);
    take("node", d.node, [](const Json& v) {
      return NodeId(static_cast<std::uint32_t>(integer_of(v, 0, kNodePidEnd - kNodePid - 1)));
    });
    take("clock", d.clock, clock_of);
    take("min_clock", d.min_clock, clock_of);
    take("threshold", d.threshold, threshold_of);
    take("lpr", d.lpr, [](const Json& v) { return v.get<double>(); });
    take("version", d.version, number_as<Version>);
    take("revision", d.revision, number_as<Revision>);
    take("gradients", d.gradients, count_of);
    take("held_us", d.held, [](const Json& v) { return std::chrono::nanoseconds(ns_of(v)); });
    if (args.contains("released_by")) d.release = release_named(args.at("released_by").get<std::string>());
    if (!trace_.decisions.empty() && d.at < trace_.decisions.back().at) {
      throw Wrong{"a decision earlier than the one before it"};
    }
    trace_.decisions.push_back(d);
  }

  Trace trace_;
  std::map<WorkerId, WorkerSpans> workers_;
  std::map<NodeId, StageSpans> stages_;
  std::map<NodeId, BucketSpans> buckets_;
  std::map<ShardId, ShardSpans> shards_;
  Ticks origin_;
  std::chrono::nanoseconds worked_{0};  // from each thread's first span to its last
  std::int64_t lines_ = 0;
  std::int64_t events_ = 0;
  std::int64_t expected_ = 0;
};

// What a library says, without its "[json.exception.type_error.302] ".
std::string plain(const std::string& what) {
  const std::size_t end = what.find("] ");
  return quotable(end == std::string::npos ? what : what.substr(end + 2));
}

}  // namespace

Result<Trace> read_trace_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found(file.string() + ": no such trace, or it cannot be read");
  Reader reader;
  std::string line(kLineBytesMax, '\0');
  std::int64_t number = 0;
  const auto place = [&] { return file.string() + ":" + std::to_string(number) + ": "; };
  while (in.getline(line.data(), static_cast<std::streamsize>(line.size())) || in.gcount() > 0) {
    ++number;
    if (in.fail() && !in.eof()) {
      return data_loss(place() + "a line longer than " + std::to_string(kLineBytesMax) +
                       " bytes, expected an event");
    }
    // All of it, also after a NUL; the newline is counted, but not stored.
    const auto read = static_cast<std::size_t>(in.gcount());
    std::string_view text(line.data(), in.eof() ? read : read - 1);
    // The library takes it for the end, and what lies after it for nothing.
    if (text.find('\0') != std::string_view::npos) return data_loss(place() + "a NUL, expected an event");
    if (text == "]}") {
      if (reader.events() == reader.expected()) return reader.take();
      return data_loss(place() + "it ends after " + std::to_string(reader.events()) + " events, expected " +
                       std::to_string(reader.expected()) + "; lines are missing");
    }
    if (text.ends_with(',')) text.remove_suffix(1);
    try {
      number == 1 ? reader.header(std::string(text)) : reader.event(std::string(text));
    } catch (const Wrong& wrong) {
      return data_loss(place() + wrong.what);
    } catch (const Json::exception& error) {
      const bool first = number == 1;
      return data_loss(place() + (first ? "no trace of Paceline's: " : "no event: ") + plain(error.what()));
    }
  }
  return data_loss(file.string() + ": cut off after line " + std::to_string(number) + ", expected ]}");
}

}  // namespace paceline::trace
