#include "common/live/status_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/printed.h"

namespace paceline {
namespace {

std::string padded(std::string text, std::size_t width, bool right) {
  const std::size_t length = characters(text);
  if (length >= width) return text;
  const std::string room(width - length, ' ');
  return right ? room + text : text + room;
}

// "0:07", "1:02:33", "12 days"
std::string duration_text(double seconds) {
  constexpr double kDay = 86400.0;
  if (!(seconds >= 0.0) || seconds > 1000 * kDay) return "very long";
  if (seconds > 2 * kDay) return printed("%.0f days", seconds / kDay);
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole >= 3600) return printed("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return printed("%ld:%02ld", whole / 60, whole % 60);
}

std::string rate_text(double rate) {
  return printed(rate < 10 ? "%.2f" : rate < 1000 ? "%.1f" : "%.0f", rate);
}

// "3.0 (0.36)": a straggler, and the lower of its scores.
std::string straggler_text(const RunStatus& status, WorkerId straggler) {
  for (const WorkerStatus& worker : status.workers) {
    if (worker.worker == straggler && worker.score) {
      return to_string(straggler) + printed(" (%.2f)", worker.score->lower());
    }
  }
  return to_string(straggler);
}

std::string stragglers_text(const RunStatus& status) {
  std::string text;
  for (const WorkerId worker : status.stragglers)
    text += (text.empty() ? "" : " ") + straggler_text(status, worker);
  return text;
}

// "7 wait for 3.0": for whom most workers wait, and how many; empty where nobody does. A worker that waits
// for another is held; one that waits for a shard only sends.
std::string waited_for(const RunStatus& status) {
  constexpr std::string_view kWorker = "worker ";
  std::map<std::string, int> workers, others;
  for (const WorkerStatus& worker : status.workers) {
    const std::string& whom = worker.waits_for;
    if (whom.starts_with(kWorker))
      ++workers[whom.substr(kWorker.size())];
    else if (!whom.empty())
      ++others[whom];
  }
  const std::map<std::string, int>& counts = workers.empty() ? others : workers;
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) return "";
  return printed(most->second == 1 ? "%d waits for " : "%d wait for ", most->second) + printable(most->first);
}

std::string clocks_text(const RunStatus& s) {
  return "clock " + to_string(s.min_clock) +
         (s.max_clock == s.min_clock ? "" : ".." + to_string(s.max_clock));
}

std::string both_clocks(const RunStatus& s) { return to_string(s.min_clock) + ".." + to_string(s.max_clock); }

// So wide are a rate up to 99999, a gap of two digits, and less than ten hours.
constexpr std::size_t kRateWidth = 5, kGapWidth = 2, kDurationWidth = 7;

// The numbers of the whole, as words that stand beside each other. Where they are rewritten each second they
// stay in their places (kSteady): they are as wide whatever they are.
enum class Places { kClose, kSteady };
std::vector<std::string> facts(const RunStatus& s, Places places = Places::kClose) {
  const bool steady = places == Places::kSteady;
  std::vector<std::string> parts{"version " + to_string(s.version)};
  parts.push_back(steady ? "clock " + both_clocks(s) : clocks_text(s));
  parts.push_back("gap " + (steady ? padded(to_string(s.gap()), kGapWidth, true) : to_string(s.gap())) + "/" +
                  to_string(s.threshold));
  if (s.lpr) parts.push_back(printed(steady ? "LPR %6.1f %%" : "LPR %.1f %%", *s.lpr));
  if (s.train_loss) parts.push_back(printed(steady ? "loss %7.4f" : "loss %.4f", *s.train_loss));
  if (s.train_accuracy)
    parts.push_back(
        printed(steady ? "train accuracy %5.1f %%" : "train accuracy %.1f %%", 100 * *s.train_accuracy));
  if (s.test_accuracy)
    parts.push_back(
        printed(steady ? "test accuracy %5.1f %%" : "test accuracy %.1f %%", 100 * *s.test_accuracy));
  if (s.skipped > 0) parts.push_back(printed("%lld skipped", static_cast<long long>(s.skipped)));
  if (s.samples_per_second) {
    const std::string rate = rate_text(*s.samples_per_second);
    parts.push_back((steady ? padded(rate, kRateWidth, true) : rate) + " samples/s");
  }
  if (const double bus = s.moved.bytes_per_second_reducing(); bus > 0) {
    parts.push_back(printed(steady ? "bus %5.2f GB/s" : "bus %.2f GB/s", bus * 1e-9));
  }
  parts.push_back(printed(steady ? "%3.0f %% done" : "%.0f %% done", 100 * s.done));
  if (s.seconds_left) {
    const std::string left = duration_text(*s.seconds_left);
    parts.push_back((steady ? padded(left, kDurationWidth, true) : left) + " left");
  }
  return parts;
}

// Where the workers' time has gone so far, the largest shares first; empty where no node has said it.
std::vector<std::string> time_shares(const RunStatus& s) {
  constexpr double kShownFrom = 0.5;  // per cent
  std::array<double, kPhaseCount> sum{};
  double wall = 0.0;
  for (const WorkerStatus& worker : s.workers) {
    if (!worker.times) continue;
    for (std::size_t i = 0; i < kPhaseCount; ++i) sum[i] += static_cast<double>(worker.times->phases[i]);
    wall += static_cast<double>(worker.times->wall);
  }
  if (wall <= 0) return {};
  std::vector<std::pair<double, std::string>> shares;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const double percent = 100.0 * sum[i] / wall;
    if (percent >= kShownFrom) shares.emplace_back(percent, kPhaseNames[i]);
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> parts;
  for (const auto& [percent, name] : shares) parts.push_back(name + printed(" %.0f %%", percent));
  return parts;
}

std::string joined(const std::vector<std::string>& parts, const char* gap = "  ") {
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : gap) + part;
  return line;
}

// A fact in few words; of those that do not fit beside each other the one of the highest rank goes first.
struct ShortFact {
  std::string text;
  int rank;
};

// In the order in which they stand. What is not known is not there.
std::vector<ShortFact> short_facts(const RunStatus& s) {
  std::vector<ShortFact> facts;
  const auto add = [&](std::string text, int rank) { facts.push_back({std::move(text), rank}); };
  add(both_clocks(s), 1);
  add("gap " + padded(to_string(s.gap()), kGapWidth, true) + "/" + to_string(s.threshold), 2);
  if (s.lpr) add(printed("LPR %5.1f", *s.lpr), 6);
  if (s.train_loss) add(printed("loss %5.2f", *s.train_loss), 4);
  if (s.train_accuracy) add(printed("train %5.1f %%", 100 * *s.train_accuracy), s.test_accuracy ? 8 : 3);
  if (s.test_accuracy) add(printed("test %5.1f %%", 100 * *s.test_accuracy), 3);
  if (s.skipped > 0) add(printed("%lld skipped", static_cast<long long>(s.skipped)), 9);
  if (s.samples_per_second) add(padded(rate_text(*s.samples_per_second), kRateWidth, true) + "/s", 5);
  add(printed("%3.0f %%", 100 * s.done), s.seconds_left ? 7 : 0);
  if (s.seconds_left) add(padded(duration_text(*s.seconds_left), kDurationWidth, true) + " left", 0);
  return facts;
}

std::string joined(const std::vector<ShortFact>& facts, const char* gap) {
  std::vector<std::string> texts;
  for (const ShortFact& fact : facts) texts.push_back(fact.text);
  return joined(texts, gap);
}

// Parts beside each other, as many in a line as fit.
void add_wrapped(std::vector<std::string>& lines, const std::vector<std::string>& parts,
                 std::size_t columns) {
  std::string line;
  for (const std::string& part : parts) {
    if (!line.empty() && characters(line) + 2 + characters(part) > columns) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : "  ") + part;
  }
  if (!line.empty()) lines.push_back(line);
}

// As many as there is room for in a third of the rows, with the table of workers below.
void add_waits(std::vector<std::string>& lines, const RunStatus& s, std::size_t rows) {
  constexpr std::size_t kRowsBelow = 4;  // an empty one, the heading, a worker, how many more there are
  const std::size_t taken = lines.size() + kRowsBelow;
  const std::size_t room = std::min(rows > taken ? rows - taken : 0, rows / 3);
  const std::size_t all =
      std::max(s.waits.size(), static_cast<std::size_t>(std::max<std::int64_t>(s.waits_total, 0)));
  const std::size_t shown =
      std::min(s.waits.size(), all <= room ? all : room - std::min<std::size_t>(room, 1));
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(printable(s.waits[i]));
  if (shown < all && room > 0) lines.push_back(printed("and %zu more waits", all - shown));
}

// Of columns that do not fit beside each other the one of the highest rank goes first.
struct Column {
  const char* name;
  std::size_t width;
  bool right;
  int rank;
};
constexpr Column kColumns[] = {{"worker", 8, false, 0}, {"clock", 9, true, 2},      {"gap", 5, true, 3},
                               {"state", 10, false, 1}, {"iteration", 10, true, 5}, {"relative", 8, true, 4},
                               {"own", 6, true, 6},     {"waits for", 10, false, 0}};
constexpr std::size_t kColumnGap = 2;

// The places of those that fit into so many characters.
std::vector<std::size_t> fitting_columns(std::size_t columns) {
  std::vector<std::size_t> shown;
  std::size_t width = 0;
  for (std::size_t i = 0; i < std::size(kColumns); ++i) {
    shown.push_back(i);
    width += kColumns[i].width + (i == 0 ? 0 : kColumnGap);
  }
  while (width > columns) {
    const auto last = std::max_element(shown.begin(), shown.end(), [](std::size_t a, std::size_t b) {
      return kColumns[a].rank < kColumns[b].rank;
    });
    if (kColumns[*last].rank == 0) break;
    width -= kColumns[*last].width + kColumnGap;
    shown.erase(last);
  }
  return shown;
}

std::string row_text(const std::vector<std::string>& cells, const std::vector<std::size_t>& shown) {
  std::string line;
  for (const std::size_t i : shown) {
    line += (line.empty() ? "" : std::string(kColumnGap, ' ')) +
            padded(cells[i], kColumns[i].width, kColumns[i].right);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string heading(const std::vector<std::size_t>& shown) {
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  return row_text(names, shown);
}

std::string worker_row(const RunStatus& status, const WorkerStatus& worker,
                       const std::vector<std::size_t>& shown) {
  const auto share = [&](double value) { return printed("%.2f", value); };
  const bool gone = worker.state == "finished" || worker.state == "lost";
  return row_text({to_string(worker.worker), to_string(worker.clock),
                   gone ? "" : to_string(worker.clock - status.min_clock), printable(worker.state),
                   worker.score ? printed("%.3f s", worker.score->iteration_seconds) : "",
                   worker.score ? share(worker.score->relative) : "",
                   worker.score ? share(worker.score->individual) : "", printable(worker.waits_for)},
                  shown);
}

// What the status says of one node: its workers, their clocks and stragglers.
RunStatus part_of(const RunStatus& s, std::uint32_t node) {
  RunStatus part;
  bool first = true;
  for (const WorkerStatus& worker : s.workers) {
    if (worker.worker.node.value != node) continue;
    part.workers.push_back(worker);
    if (worker.state == "finished" || worker.state == "lost") continue;
    part.min_clock = first ? worker.clock : std::min(part.min_clock, worker.clock);
    part.max_clock = first ? worker.clock : std::max(part.max_clock, worker.clock);
    first = false;
  }
  for (const WorkerId straggler : s.stragglers) {
    if (straggler.node.value == node) part.stragglers.push_back(straggler);
  }
  return part;
}

std::string node_line(const RunStatus& s, const MemberStatus& node, std::size_t columns) {
  constexpr double kSilentFrom = 2.0;  // s: what is longer than a heartbeat's time is worth a word
  constexpr std::size_t kShares = 3;
  const RunStatus part = part_of(s, node.number);
  std::vector<std::string> parts{printed("node %u", node.number)};
  const auto same = [&](const WorkerStatus& worker) { return worker.state == part.workers.front().state; };
  const bool one_state = !part.workers.empty() && std::all_of(part.workers.begin(), part.workers.end(), same);
  if (!node.up || (one_state && part.workers.front().state == "finished")) {
    parts.push_back(one_state ? printable(part.workers.front().state) : "not here");
    return fitted(joined(parts), columns);
  }
  if (!part.workers.empty()) parts.push_back(clocks_text(part));  // of more than 1,000 workers none is listed
  if (node.silent_seconds && *node.silent_seconds >= kSilentFrom) {
    parts.push_back(printed("silent for %.0f s", *node.silent_seconds));
  }
  if (!part.stragglers.empty()) parts.push_back("slow: " + stragglers_text(part));
  if (std::string whom = waited_for(part); !whom.empty()) parts.push_back(std::move(whom));
  std::vector<std::string> shares = time_shares(part);
  if (shares.size() > kShares) shares.resize(kShares);
  parts.insert(parts.end(), shares.begin(), shares.end());
  return fitted(joined(parts), columns);
}

bool is_slower(const WorkerStatus& a, const WorkerStatus& b) {
  const double x = a.score ? a.score->lower() : 2.0, y = b.score ? b.score->lower() : 2.0;
  return x != y ? x < y : a.clock != b.clock ? a.clock < b.clock : a.worker < b.worker;
}

// The workers that there is room for: all, or the slowest, in worker order.
std::vector<const WorkerStatus*> shown_workers(const RunStatus& status, std::size_t room) {
  std::vector<const WorkerStatus*> shown;
  for (const WorkerStatus& worker : status.workers) shown.push_back(&worker);
  if (shown.size() <= room) return shown;
  std::sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) { return is_slower(*a, *b); });
  shown.resize(room);
  std::sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) { return a->worker < b->worker; });
  return shown;
}

}  // namespace

std::string status_line(const RunStatus& status) {
  std::vector<std::string> parts = facts(status);
  if (!status.stragglers.empty()) parts.push_back("slow: " + stragglers_text(status));
  if (std::string whom = waited_for(status); !whom.empty()) parts.push_back(std::move(whom));
  if (!status.stall.empty()) parts.push_back(printable(status.stall));
  return joined(parts);
}

std::array<std::string, 2> status_rows(const RunStatus& status, std::size_t columns) {
  constexpr int kKeptUpTo = 1;  // the clocks and the time left
  std::string numbers = joined(facts(status, Places::kSteady));
  if (characters(numbers) > columns) {
    std::vector<ShortFact> facts = short_facts(status);
    while (characters(joined(facts, " ")) > columns) {
      const auto last = std::max_element(facts.begin(), facts.end(),
                                         [](const auto& a, const auto& b) { return a.rank < b.rank; });
      if (last->rank <= kKeptUpTo) break;
      facts.erase(last);
    }
    numbers = joined(facts, " ");
  }
  std::vector<std::string> others;
  if (!status.stall.empty()) others.push_back(printable(status.stall));
  // Where a wait has become long that says who waits for whom, and why.
  if (std::string whom = waited_for(status); status.stall.empty() && !whom.empty())
    others.push_back(std::move(whom));
  if (!status.stragglers.empty()) others.push_back("slow: " + stragglers_text(status));
  return {fitted(numbers, columns), fitted(joined(others), columns)};
}

std::vector<std::string> node_lines(const RunStatus& s, std::size_t columns, std::size_t rows) {
  if (s.nodes.size() < 2 || (s.nodes.size() > rows && rows < 2)) return {};
  std::vector<const MemberStatus*> shown;
  for (const MemberStatus& node : s.nodes) shown.push_back(&node);
  if (shown.size() > rows) {
    std::map<std::uint32_t, const WorkerStatus*> slowest;
    for (const WorkerStatus& worker : s.workers) {
      const WorkerStatus*& of_node = slowest[worker.worker.node.value];
      if (of_node == nullptr || is_slower(worker, *of_node)) of_node = &worker;
    }
    // Stragglers come first, those that are not listed among the workers, too.
    const auto place = [&](std::uint32_t node) {
      return std::find_if(s.stragglers.begin(), s.stragglers.end(),
                          [node](WorkerId worker) { return worker.node.value == node; });
    };
    const auto first = [&](const MemberStatus* a, const MemberStatus* b) {
      if (const auto p = place(a->number), q = place(b->number); p != q) return p < q;
      const WorkerStatus *x = slowest[a->number], *y = slowest[b->number];
      return x == nullptr || y == nullptr ? x != nullptr : is_slower(*x, *y);
    };
    std::stable_sort(shown.begin(), shown.end(), first);
    shown.resize(rows - 1);
    std::sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  }
  std::vector<std::string> lines;
  for (const MemberStatus* node : shown) lines.push_back(node_line(s, *node, columns));
  if (shown.size() < s.nodes.size()) {
    lines.push_back(fitted(printed("and %zu more nodes", s.nodes.size() - shown.size()), columns));
  }
  return lines;
}

std::string status_table(const RunStatus& s, std::size_t columns, std::size_t rows) {
  std::vector<std::string> lines;
  std::int64_t up = 0;
  for (const MemberStatus& node : s.nodes) up += node.up ? 1 : 0;
  add_wrapped(
      lines,
      {printable(s.run) + ": " + printable(s.state) + (s.outcome.empty() ? "" : ", " + printable(s.outcome)),
       "policy " + printable(s.policy), duration_text(s.seconds),
       s.over() ? printed("%zu nodes", s.nodes.size())  // which have gone by then
                : printed("%lld of %zu nodes", static_cast<long long>(up), s.nodes.size()),
       printed("%lld of %lld iterations", static_cast<long long>(s.iterations),
               static_cast<long long>(s.iterations_total))},
      columns);
  add_wrapped(lines, facts(s), columns);
  std::vector<std::string> shares = time_shares(s);
  if (!shares.empty()) shares.front().insert(0, "time: ");
  add_wrapped(lines, shares, columns);
  if (!s.stragglers.empty()) lines.push_back("slow: " + stragglers_text(s));
  add_waits(lines, s, rows);
  lines.push_back("");
  const std::size_t room = rows > lines.size() + 3 ? rows - lines.size() - 2 : 1;
  const std::vector<const WorkerStatus*> shown = shown_workers(s, room);
  const std::vector<std::size_t> fitting = fitting_columns(columns);
  lines.push_back(heading(fitting));
  for (const WorkerStatus* worker : shown) lines.push_back(worker_row(s, *worker, fitting));
  if (s.workers_total > shown.size()) {
    lines.push_back(
        printed("and %zu more workers", static_cast<std::size_t>(s.workers_total) - shown.size()));
  }
  if (lines.size() > rows) lines.resize(rows);
  std::string text;
  for (const std::string& line : lines) text += fitted(line, columns) + "\n";
  return text;
}

}  // namespace paceline
