// Runs every tests/scenario/*.txt through the Engine and compares what it does, line by line. The format is
// described in README.md beside this file.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/config/names.h"
#include "common/sync/engine.h"
#include "tests/scenario/render.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;
using Words = std::vector<std::string>;

Words split(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The key=value words of a command.
struct Options {
  std::map<std::string, std::string> values;

  explicit Options(const Words& words) {
    for (const std::string& word : words) {
      const auto equals = word.find('=');
      if (equals != std::string::npos) values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string text(const std::string& key, std::string otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    return values.count(key) ? std::stoll(values.at(key)) : otherwise;
  }
};

WorkerId worker_of(const std::string& word) {
  const auto dot = word.find('.');
  return WorkerId(static_cast<std::uint32_t>(std::stoul(word.substr(0, dot))),
                  static_cast<std::uint32_t>(std::stoul(word.substr(dot + 1))));
}

template <typename T>
T one_of(const std::string& word, const std::map<std::string, T>& choices) {
  const auto found = choices.find(word);
  if (found == choices.end()) FAIL("unknown choice: " << word);
  return found->second;
}

// "bsp/version:2,ssp:1": policies with their threshold, and what ends each but the last. "ssp:1+eager"
// applies on arrival.
std::vector<PolicyStage> stages_of(const std::string& text) {
  std::vector<PolicyStage> stages;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    const auto slash = one.find('/');
    std::string policy = one.substr(0, slash);
    PolicyStage stage;
    if (policy.ends_with("+eager")) {
      stage.apply = ApplyMode::kEager;
      policy.resize(policy.find('+'));
    }
    stage.policy = named<PolicyKind>(policy.substr(0, policy.find(':'))).value();
    if (policy.find(':') != std::string::npos) {
      stage.threshold = stage.threshold_min = std::stoll(policy.substr(policy.find(':') + 1));
    }
    if (slash != std::string::npos) {
      const std::string until = one.substr(slash + 1);
      stage.until.end = named<StageEnd>(until.substr(0, until.find(':'))).value();
      stage.until.value = std::stod(until.substr(until.find(':') + 1));
    }
    stages.push_back(stage);
  }
  return stages;
}

EngineConfig config_of(const Options& o) {
  EngineConfig c;
  c.cluster.nodes = static_cast<std::uint32_t>(o.number("nodes", 1));
  c.cluster.threads_per_node = static_cast<std::uint32_t>(o.number("threads", o.number("workers", 1)));
  if (o.values.count("start")) c.nodes_at_start = static_cast<std::uint32_t>(o.number("start", 1));
  c.shards = static_cast<std::uint32_t>(o.number("shards", 1));
  const std::optional<PolicyKind> policy = named<PolicyKind>(o.text("policy", "bsp"));
  if (!policy) FAIL("unknown policy: " << o.text("policy", ""));
  c.policy.kind = *policy;
  c.policy.threshold = o.number("threshold", 3);
  c.policy.threshold_min = o.number("min", 3);
  c.policy.threshold_max = o.number("max", 10);
  c.policy.backup_workers = o.number("backup", 1);
  c.policy.seed = static_cast<std::uint64_t>(o.number("seed", 1));
  c.policy.stages = stages_of(o.text("stages", ""));
  const bool asp = c.policy.kind == PolicyKind::kAsp;
  c.apply = one_of<ApplyMode>(o.text("apply", asp ? "eager" : "versioned"),
                              {{"versioned", ApplyMode::kVersioned}, {"eager", ApplyMode::kEager}});
  c.combine = one_of<CombineMode>(o.text("combine", c.apply == ApplyMode::kEager ? "each" : "mean"),
                                  {{"mean", CombineMode::kMean}, {"each", CombineMode::kEach}});
  c.share = one_of<Share>(o.text("share", "even"), {{"even", Share::kEven}, {"pool", Share::kPool}});
  c.total_iterations = o.number("total", 1000);
  c.batch_size = o.number("batch", 128);
  c.batch_sizing = one_of<BatchSizing>(o.text("balance", "off"),
                                       {{"off", BatchSizing::kEqual}, {"speed", BatchSizing::kBySpeed}});
  c.window_clocks = o.number("window", 1000);
  c.lpr_metric = one_of<LprMetric>(o.text("metric", "accuracy"),
                                   {{"accuracy", LprMetric::kAccuracy}, {"loss", LprMetric::kLoss}});
  c.grants_ahead = o.number("ahead", 0) != 0;
  c.on_nan = one_of<OnNan>(o.text("on_nan", "stop"), {{"stop", OnNan::kStop}, {"skip", OnNan::kSkip}});
  return c;
}

class Scenario {
 public:
  // Executes one command and returns what the engine did, one line per action, then who is newly held.
  Words run(const Words& words) {
    std::vector<WorkerId> held_before = held();
    std::vector<Action> actions;
    execute(words, actions);
    Words lines;
    for (const Action& action : actions) {
      lines.push_back(render(action));
      if (const auto* g = std::get_if<Grant>(&action)) granted_version_[g->worker] = g->version;
    }
    for (const WorkerId w : held()) {
      if (std::find(held_before.begin(), held_before.end(), w) == held_before.end())
        lines.push_back(hold_line(w));
    }
    return lines;
  }

 private:
  void execute(const Words& words, std::vector<Action>& actions) {
    const std::string& verb = words[0];
    const Options options({words.begin() + 1, words.end()});
    const auto send = [&](const Event& event) { engine_->step(event, now_, actions); };
    if (verb == "cluster") {
      engine_ = std::make_unique<Engine>(config_of(options));
      if (options.text("join", "all") == "manual") return;
      const Cluster cluster = engine_->config().cluster;
      for (std::uint32_t r = 0; r < cluster.workers(); ++r) send(Joined{cluster.worker_at(Rank(r))});
    } else if (verb == "join") {
      send(Joined{worker_of(words[1])});
    } else if (verb == "step") {
      const WorkerId w = worker_of(words[1]);
      const Clock clock(options.number("clock", engine_->clock_of(w).value));
      send(report(w, clock, options));
      for (std::uint32_t s = 0; s < engine_->config().shards; ++s)
        send(arrival(w, clock, ShardId(s), options));
    } else if (verb == "report") {
      const WorkerId w = worker_of(words[1]);
      send(report(w, Clock(options.number("clock", known_clock(w))), options));
    } else if (verb == "arrive") {
      const WorkerId w = worker_of(words[1]);
      const ShardId shard(static_cast<std::uint32_t>(options.number("shard", 0)));
      send(arrival(w, Clock(options.number("clock", known_clock(w))), shard, options));
    } else if (verb == "lose") {
      send(Lost{NodeId(static_cast<std::uint32_t>(std::stoul(words[1])))});
    } else if (verb == "stop") {
      send(StopRequested{words[1]});
    } else if (verb == "quiesce") {
      send(QuiesceRequested{});
    } else if (verb == "go_on") {
      send(QuiesceEnded{});
    } else if (verb == "tick") {
      now_ = now_ + std::chrono::milliseconds(std::stoll(words[1]));
      send(Tick{});
    } else {
      FAIL("unknown command: " << verb);
    }
  }

  std::int64_t known_clock(WorkerId w) const {
    return engine_->config().cluster.contains(w) ? engine_->clock_of(w).value : 0;
  }

  StepReported report(WorkerId w, Clock clock, const Options& o) {
    StepReported r;
    r.worker = w;
    r.clock = clock;
    r.metric = {static_cast<double>(o.number("loss", 100)), o.number("correct", 10),
                o.number("samples", 100)};
    r.computed_version = Version(o.number("computed", granted_version_[w].value));
    r.empty = o.values.count("empty") > 0;
    r.fault = o.text("fault", "");
    return r;
  }
  static GradientArrived arrival(WorkerId w, Clock clock, ShardId shard, const Options& o) {
    return {shard, w, clock, o.number("weight", 100), o.text("nan", "")};
  }

  std::vector<WorkerId> held() const {
    std::vector<WorkerId> who;
    if (!engine_) return who;
    const Cluster cluster = engine_->config().cluster;
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      if (engine_->is_held(cluster.worker_at(Rank(r)))) who.push_back(cluster.worker_at(Rank(r)));
    }
    return who;
  }
  std::string hold_line(WorkerId w) const {
    const Staleness lead = engine_->clock_of(w) - engine_->min_clock();
    return "hold " + to_string(w) + " clock=" + to_string(engine_->clock_of(w)) + " lead=" + to_string(lead) +
           " threshold=" + to_string(engine_->threshold());
  }

  std::unique_ptr<Engine> engine_;
  std::map<WorkerId, Version> granted_version_;
  Ticks now_;
};

// `expected` holds when its first word is the line's and all its words occur in the line, in that order.
bool matches(const std::string& expected, const std::string& line) {
  const Words want = split(expected);
  const Words have = split(line);
  if (want.empty() || have.empty() || want[0] != have[0]) return false;
  auto at = have.begin();
  for (const std::string& word : want) {
    at = std::find(at, have.end(), word);
    if (at == have.end()) return false;
    ++at;
  }
  return true;
}

std::string joined(const Words& lines) {
  std::string text;
  for (const std::string& line : lines) text += "    " + line + "\n";
  return text.empty() ? "    nothing\n" : text;
}

bool is_command(const std::string& verb) {
  const Words verbs = {"cluster", "join", "step",    "report", "arrive",
                       "lose",    "stop", "quiesce", "go_on",  "tick"};
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

void check(const std::string& where, const Words& expected, const Words& happened) {
  bool same = expected.size() == happened.size();
  for (std::size_t i = 0; same && i < expected.size(); ++i) same = matches(expected[i], happened[i]);
  INFO(where << "\n  expected\n" << joined(expected) << "  happened\n" << joined(happened));
  CHECK(same);
}

void run_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  Scenario scenario;
  Words happened, expected;
  std::string where;
  bool expecting = false;
  int number = 0, checks = 0;
  const auto finish_block = [&] {
    if (!expecting) return;
    if (expected == Words{"nothing"}) expected.clear();
    check(where, expected, happened);
    ++checks;
    expecting = false;
    expected.clear();
  };
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    const Words words = split(line);
    if (words.empty()) continue;
    if (words[0] == "----") {
      expecting = true;
      where = path.filename().string() + ":" + std::to_string(number);
    } else if (is_command(words[0])) {
      finish_block();
      happened = scenario.run(words);
    } else {
      std::istringstream entries(line);
      for (std::string entry; std::getline(entries, entry, ';');) expected.push_back(entry);
      for (std::string& entry : expected) {
        const Words w = split(entry);
        entry.clear();
        for (const std::string& word : w) entry += (entry.empty() ? "" : " ") + word;
      }
    }
  }
  finish_block();
  INFO(path.filename().string());
  CHECK(checks > 0);
}

TEST_CASE("every_scenario_file_is_what_the_engine_does") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(PACELINE_SCENARIO_DIR)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 15);
  for (const auto& file : files) run_file(file);
}

}  // namespace
}  // namespace paceline::test
