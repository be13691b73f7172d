#include "common/live/status_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {
namespace {

template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[160];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

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
  if (seconds > 2 * kDay) return text_of("%.0f days", seconds / kDay);
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole >= 3600) return text_of("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return text_of("%ld:%02ld", whole / 60, whole % 60);
}

std::string rate_text(double rate) {
  return text_of(rate < 10 ? "%.2f" : rate < 1000 ? "%.1f" : "%.0f", rate);
}

// "3.0 (0.36)": a straggler, and the lower of its scores.
std::string straggler_text(const RunStatus& status, WorkerId straggler) {
  for (const WorkerStatus& worker : status.workers) {
    if (worker.worker == straggler && worker.score) {
      return to_string(straggler) + text_of(" (%.2f)", worker.score->lower());
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
  return text_of(most->second == 1 ? "%d waits for " : "%d wait for ", most->second) + printable(most->first);
}

// The numbers of the whole, as words that stand beside each other.
std::vector<std::string> facts(const RunStatus& s) {
  std::vector<std::string> parts{"version " + to_string(s.version)};
  parts.push_back("clock " + to_string(s.min_clock) +
                  (s.max_clock == s.min_clock ? "" : ".." + to_string(s.max_clock)));
  parts.push_back("gap " + to_string(s.gap()) + "/" + to_string(s.threshold));
  if (s.lpr) parts.push_back(text_of("LPR %.1f %%", *s.lpr));
  if (s.train_loss) parts.push_back(text_of("loss %.4f", *s.train_loss));
  if (s.train_accuracy) parts.push_back(text_of("train accuracy %.1f %%", 100 * *s.train_accuracy));
  if (s.test_accuracy) parts.push_back(text_of("test accuracy %.1f %%", 100 * *s.test_accuracy));
  if (s.samples_per_second) parts.push_back(rate_text(*s.samples_per_second) + " samples/s");
  parts.push_back(text_of("%.0f %% done", 100 * s.done));
  if (s.seconds_left) parts.push_back(duration_text(*s.seconds_left) + " left");
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
  for (const auto& [percent, name] : shares) parts.push_back(name + text_of(" %.0f %%", percent));
  if (!parts.empty()) parts.front().insert(0, "time: ");
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

// In the order in which they stand. An empty one is not known.
std::vector<ShortFact> short_facts(const RunStatus& s) {
  std::vector<ShortFact> facts;
  const auto add = [&](std::string text, int rank) { facts.push_back({std::move(text), rank}); };
  add((s.min_clock == s.max_clock ? "" : to_string(s.min_clock) + "..") + to_string(s.max_clock), 2);
  add("gap " + to_string(s.gap()) + "/" + to_string(s.threshold), 3);
  if (s.lpr) add(text_of("LPR %.1f", *s.lpr), 8);
  if (s.train_loss) add(text_of("loss %.2f", *s.train_loss), 5);
  if (s.train_accuracy) add(text_of("train %.1f %%", 100 * *s.train_accuracy), s.test_accuracy ? 10 : 4);
  if (s.test_accuracy) add(text_of("test %.1f %%", 100 * *s.test_accuracy), 4);
  if (s.samples_per_second) add(rate_text(*s.samples_per_second) + "/s", 7);
  add(text_of("%.0f %%", 100 * s.done), s.seconds_left ? 9 : 0);
  if (s.seconds_left) add(duration_text(*s.seconds_left) + " left", 0);
  if (!s.stragglers.empty()) {
    const std::size_t more = s.stragglers.size() - 1;
    add("slow " + straggler_text(s, s.stragglers.front()) + (more > 0 ? text_of(" +%zu", more) : ""), 6);
  }
  // Where a wait has become long it says who waits for whom, and why.
  if (const std::string whom = waited_for(s); s.stall.empty() && !whom.empty()) add(whom, 1);
  if (!s.stall.empty()) add(printable(s.stall), 1);
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
  if (shown < all && room > 0) lines.push_back(text_of("and %zu more waits", all - shown));
}

struct Column {
  const char* name;
  std::size_t width;
  bool right;
};
constexpr Column kColumns[] = {{"worker", 8, false}, {"clock", 9, true},      {"gap", 5, true},
                               {"state", 10, false}, {"iteration", 10, true}, {"relative", 8, true},
                               {"own", 6, true},     {"waits for", 10, false}};

std::string row_text(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    line += (i == 0 ? "" : "  ") + padded(cells[i], kColumns[i].width, kColumns[i].right);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string heading() {
  std::vector<std::string> names;
  for (const Column& column : kColumns) names.emplace_back(column.name);
  return row_text(names);
}

std::string worker_row(const RunStatus& status, const WorkerStatus& worker) {
  const auto share = [&](double value) { return text_of("%.2f", value); };
  const bool gone = worker.state == "finished" || worker.state == "lost";
  return row_text({to_string(worker.worker), to_string(worker.clock),
                   gone ? "" : to_string(worker.clock - status.min_clock), printable(worker.state),
                   worker.score ? text_of("%.3f s", worker.score->iteration_seconds) : "",
                   worker.score ? share(worker.score->relative) : "",
                   worker.score ? share(worker.score->individual) : "", printable(worker.waits_for)});
}

// The workers that there is room for: all, or the slowest, in worker order.
std::vector<const WorkerStatus*> shown_workers(const RunStatus& status, std::size_t room) {
  std::vector<const WorkerStatus*> shown;
  for (const WorkerStatus& worker : status.workers) shown.push_back(&worker);
  if (shown.size() <= room) return shown;
  const auto slower = [](const WorkerStatus* a, const WorkerStatus* b) {
    const double x = a->score ? a->score->lower() : 2.0, y = b->score ? b->score->lower() : 2.0;
    return x != y ? x < y : a->clock != b->clock ? a->clock < b->clock : a->worker < b->worker;
  };
  std::sort(shown.begin(), shown.end(), slower);
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

std::string status_line(const RunStatus& status, std::size_t columns) {
  constexpr int kKeptUpTo = 2;  // the clocks, the time left and who is waited for
  if (std::string all = status_line(status); characters(all) <= columns) return all;
  std::vector<ShortFact> facts = short_facts(status);
  const char* gap = "  ";
  while (characters(joined(facts, gap)) > columns) {
    // Blanks go first.
    if (characters(gap) > 1) {
      gap = " ";
      continue;
    }
    const auto last = std::max_element(facts.begin(), facts.end(),
                                       [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (last->rank <= kKeptUpTo) break;
    facts.erase(last);
  }
  return fitted(joined(facts, gap), columns);
}

std::string status_table(const RunStatus& s, std::size_t columns, std::size_t rows) {
  std::vector<std::string> lines;
  std::int64_t up = 0;
  for (const MemberStatus& node : s.nodes) up += node.up ? 1 : 0;
  add_wrapped(
      lines,
      {printable(s.run) + ": " + printable(s.state) + (s.outcome.empty() ? "" : ", " + printable(s.outcome)),
       "policy " + printable(s.policy), duration_text(s.seconds),
       text_of("%lld of %zu nodes", static_cast<long long>(up), s.nodes.size()),
       text_of("%lld of %lld iterations", static_cast<long long>(s.iterations),
               static_cast<long long>(s.iterations_total))},
      columns);
  add_wrapped(lines, facts(s), columns);
  add_wrapped(lines, time_shares(s), columns);
  if (!s.stragglers.empty()) lines.push_back("slow: " + stragglers_text(s));
  add_waits(lines, s, rows);
  lines.push_back("");
  const std::size_t room = rows > lines.size() + 3 ? rows - lines.size() - 2 : 1;
  const std::vector<const WorkerStatus*> shown = shown_workers(s, room);
  lines.push_back(heading());
  for (const WorkerStatus* worker : shown) lines.push_back(worker_row(s, *worker));
  if (s.workers_total > shown.size()) {
    lines.push_back(
        text_of("and %zu more workers", static_cast<std::size_t>(s.workers_total) - shown.size()));
  }
  if (lines.size() > rows) lines.resize(rows);
  std::string text;
  for (const std::string& line : lines) text += fitted(line, columns) + "\n";
  return text;
}

}  // namespace paceline
