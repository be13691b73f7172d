#include "tools/compare_groups.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "common/config/load.h"
#include "common/report/read_run.h"
#include "common/report/same_work.h"

namespace paceline {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kDataPath = "data.path";
constexpr const char* kLength = "train.total_iterations";

// What no result depends on.
const std::set<std::string>& indifferent() {
  static const std::set<std::string> keys{
      "run.name",         "run.seed",           "run.out",
      "run.log_level",    "run.tensorboard",    "run.trace",
      "run.trace_events", "run.http",           "run.straggler_warning",
      kDataPath,          "data.train_samples", "security.allow_insecure"};
  return keys;
}

// What a group's name says.
const std::set<std::string>& named() {
  static const std::set<std::string> keys{"sync.policy", "sync.threshold", "sync.threshold_min",
                                          "sync.threshold_max"};
  return keys;
}

std::string value_in(const Values& values, const std::string& key) {
  for (const auto& [path, value] : values) {
    if (path == key) return value;
  }
  return "null";
}

// Of where the sockets are: whether they are of one machine (ipc) or not. Of the keys: whether what is sent
// is encrypted.
std::string as_it_counts(const std::string& key, const std::string& value) {
  if (key == "cluster.endpoints") return value.substr(0, value.find("://"));
  if (key == "security.keys") return value == "null" ? value : "given";
  return value;
}

// By what a run's group is known: equal exactly for the runs of one group.
Values identity(const Values& configuration) {
  Values kept;
  for (const auto& [key, value] : configuration) {
    if (!indifferent().contains(key) && counted_key(key) == key)
      kept.emplace_back(key, as_it_counts(key, value));
  }
  return kept;
}

// "bsp", "ssp(3)", "dtssp(3, 3-10)".
std::string policy_name(const Values& values) {
  const std::string policy = value_in(values, "sync.policy");
  const std::string threshold = value_in(values, "sync.threshold");
  const std::string low = value_in(values, "sync.threshold_min"),
                    high = value_in(values, "sync.threshold_max");
  if (policy == "bsp" || policy == "asp") return policy;  // their thresholds follow from their names
  std::string text = threshold == "null" ? "" : threshold;
  if (low != "null" || high != "null") text += (text.empty() ? "" : ", ") + low + "-" + high;
  return text.empty() ? policy : policy + "(" + text + ")";
}

Status check_same(const ComparedRun& first, const ComparedRun& run, const std::string& key) {
  const std::string got = value_in(run.configuration, key), expected = value_in(first.configuration, key);
  if (got == expected) return Status::ok();
  return invalid_argument(run.name + ": " + key + " is " + got + ", expected " + expected + " as in " +
                          first.name);
}

Status check_same_work(const ComparedRun& first, const ComparedRun& run, Lengths lengths) {
  if (first.summary.simulated_seed.has_value() != run.summary.simulated_seed.has_value()) {
    const auto kind = [](const ComparedRun& r) { return r.summary.simulated_seed ? "simulated" : "real"; };
    return invalid_argument(run.name + ": " + kind(run) + ", expected a " + kind(first) + " run as " +
                            first.name + " is; virtual time and real time are not compared");
  }
  const bool simulated = first.summary.simulated_seed.has_value();
  for (const auto& [key, expected] : first.configuration) {
    if (!is_of_the_work(key) && !is_of_the_cluster(key, simulated)) continue;
    if (key == kLength && lengths == Lengths::kAny) continue;
    const Status same = check_same(first, run, key);
    if (key == kLength && !same.is_ok()) {
      return invalid_argument(same.message() +
                              "; of runs of any length --target compares the time to an accuracy");
    }
    PACELINE_RETURN_IF_ERROR(same);
  }
  const std::string got = run.summary.trace.value_or("none"), expected = first.summary.trace.value_or("none");
  if (got == expected) return Status::ok();
  return invalid_argument(run.name + ": computations are drawn from another trace (" + got +
                          ") than those of " + first.name + " (" + expected + "), expected the same");
}

// The keys in which not all of `groups` agree.
std::set<std::string> differing_keys(const std::vector<Values>& groups) {
  std::set<std::string> keys;
  for (const Values& group : groups) {
    for (const auto& [key, value] : group) {
      if (!named().contains(key) && value != value_in(groups.front(), key)) keys.insert(key);
    }
  }
  return keys;
}

// Where the data of a group's runs was, each place once.
std::string data_paths(const RunGroup& group) {
  std::set<std::string> paths;
  for (const ComparedRun* run : group.runs) paths.insert(value_in(run->configuration, kDataPath));
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

// No result depends on where the data is, but on what it is, which no run says: so that it is seen.
void list_data_paths(std::vector<RunGroup>& groups) {
  const std::string first = data_paths(groups.front());
  const bool differ = std::any_of(groups.begin(), groups.end(),
                                  [&](const RunGroup& group) { return data_paths(group) != first; });
  if (!differ) return;
  for (RunGroup& group : groups) group.differing.emplace_back(kDataPath, data_paths(group));
}

// Names from the policies and, within those of one name, from what differs.
void name_groups(std::vector<RunGroup>& groups, const std::vector<Values>& identities) {
  const std::set<std::string> differing = differing_keys(identities);
  std::map<std::string, std::vector<std::size_t>> by_name;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i].name = policy_name(identities[i]);
    by_name[groups[i].name].push_back(i);
    for (const auto& [key, value] : identities[i]) {
      if (differing.contains(key)) groups[i].differing.emplace_back(key, value);
    }
  }
  for (const auto& [name, members] : by_name) {
    std::vector<Values> namesakes;
    for (const std::size_t i : members) namesakes.push_back(identities[i]);
    for (const std::string& key : differing_keys(namesakes)) {
      for (const std::size_t i : members) groups[i].name += " " + key + "=" + value_in(identities[i], key);
    }
  }
}

}  // namespace

Result<ComparedRun> read_compared(const std::string& folder) {
  const std::filesystem::path path(folder);
  ComparedRun run;
  run.name = folder;
  PACELINE_ASSIGN_OR_RETURN(run.summary, read_finished(folder));
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_config((path / "config.yaml").string(), {}, LoadFor::kReading));
  run.seed = config.run.seed;
  run.total_iterations = config.train.total_iterations;
  run.target_accuracy = config.run.target_accuracy;
  run.share = config.train.share;
  run.configuration = effective_values(config);
  PACELINE_ASSIGN_OR_RETURN(run.curve, read_curve(path));
  Result<std::vector<WorkerStaleness>> staleness = read_staleness(path);
  if (staleness.status().code() == StatusCode::kNotFound) return run;  // nothing was applied
  PACELINE_ASSIGN_OR_RETURN(run.staleness, std::move(staleness));
  return run;
}

Status check_same_evaluations(std::span<const ComparedRun> runs, AccuracyOf accuracy) {
  const std::vector<std::string> keys =
      accuracy == AccuracyOf::kTest
          ? std::vector<std::string>{"train.eval_every_clocks", "train.eval_samples"}
          : std::vector<std::string>{"sync.lpr.window_clocks"};
  for (const ComparedRun& run : runs) {
    for (const std::string& key : keys) {
      if (const Status same = check_same(runs.front(), run, key); !same.is_ok()) {
        return Status(same).with_context(
            "--target: evaluations at other instants are no measure of one time");
      }
    }
  }
  return Status::ok();
}

Result<std::vector<RunGroup>> group_runs(std::span<const ComparedRun> runs, Lengths lengths) {
  std::vector<RunGroup> groups;
  std::vector<Values> identities;
  for (const ComparedRun& run : runs) {
    PACELINE_RETURN_IF_ERROR(check_same_work(runs.front(), run, lengths));
    const Values key = identity(run.configuration);
    const auto place =
        static_cast<std::size_t>(std::find(identities.begin(), identities.end(), key) - identities.begin());
    if (place == groups.size()) {
      groups.emplace_back();
      identities.push_back(key);
    }
    for (const ComparedRun* other : groups[place].runs) {
      if (other->seed != run.seed) continue;
      return invalid_argument(run.name + ": same configuration and seed " + std::to_string(run.seed) +
                              " as " + other->name + "; give one of the two");
    }
    groups[place].runs.push_back(&run);
  }
  for (RunGroup& group : groups) {
    std::sort(group.runs.begin(), group.runs.end(),
              [](const ComparedRun* a, const ComparedRun* b) { return a->seed < b->seed; });
  }
  name_groups(groups, identities);
  list_data_paths(groups);
  return groups;
}

}  // namespace paceline
