// Keys in epochs, for schedules and lengths that do not change with the number of workers. They are made into what the
// rest goes by, versions and iterations, once and while a configuration is loaded. What was asked for stays beside
// that, for people: fingerprints leave it out, and a file that says both, as config.yaml does, says the same in both.
//
//   versions     the nearest whole number to epochs x N / (n k): N samples of an epoch, n batch_size, k the
//                iterations of a clock (planned.h); a schedule counts mini-batches of each worker, so local steps
//                change nothing
//   iterations   the nearest whole number of rounds of all workers
//
// Worked example, N = 50,000, n = 32, k = 64: a version has 2,048 samples, so 5 epochs are 122.07, 122 versions; 40
// epochs are 976.6, 977 versions of 64 iterations, 62,528.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/checks.h"
#include "common/config/load.h"
#include "common/config/names.h"
#include "common/config/planned.h"
#include "common/printed.h"

namespace paceline {
namespace config {
namespace {

constexpr std::int64_t kCifar10Samples = 50'000;
constexpr double kCountMax = 1e12;  // as the keys that count versions and iterations

// What decides how many versions and rounds an epoch is.
constexpr const char* kOfAnEpoch[] = {
    "cluster.nodes",    "cluster.threads_per_node", "sync.policy",        "sync.backup_workers",
    "train.batch_size", "train.local_steps",        "data.train_samples", "data.kind"};

using Counts = std::vector<std::int64_t>;

std::string in_a_row(const Counts& counts) {
  std::string text;
  for (const std::int64_t count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return text;
}

class Epochs {
 public:
  Epochs(RunConfig& config, Given& given, std::vector<std::string>& notes)
      : config_(config), given_(given), notes_(notes) {}

  Status length() {
    TrainSection& train = config_.train;
    const std::int64_t round = iterations_of_a_clock(config_) * train.local_steps;
    return count(train.total_epochs, "train.total_epochs", {round * train.batch_size, "rounds", round},
                 train.total_iterations);
  }

  // `at`: "train.optimizer.schedule.".
  Status schedule(ScheduleSection& s, const std::string& at) {
    const Unit version{config_.train.batch_size * iterations_of_a_clock(config_)};
    PACELINE_RETURN_IF_ERROR(count(s.warmup_epochs, at + "warmup_epochs", version, s.warmup_versions));
    PACELINE_RETURN_IF_ERROR(count(s.step_epochs, at + "step_epochs", version, s.step_versions));
    PACELINE_RETURN_IF_ERROR(count(s.total_epochs, at + "total_epochs", version, s.total_versions));
    PACELINE_ASSIGN_OR_RETURN(std::optional<Counts> turns,
                              chosen(at + "step_at_epochs", s.step_at_epochs, version, s.step_at));
    if (turns) {
      s.step_at = *std::move(turns);
    } else {
      s.step_at_epochs.clear();
    }
    return Status::ok();
  }

 private:
  struct Unit {
    std::int64_t samples = 1;
    const char* name = "versions";
    std::int64_t factor = 1;  // of one in the key that counts them
  };

  Status refuse(const std::string& key, const std::string& what, const std::string& got,
                const std::string& expected) const {
    return invalid_argument(format_error(given_.place_of(key), key, what, got, expected));
  }
  bool is_argument(const std::string& key) const { return given_.has(key) && given_.place_of(key).line == 0; }

  // `number`: what the key in versions or iterations has, which `epochs` set where they count.
  template <typename Number>
  Status count(std::optional<double>& epochs, const std::string& key, const Unit& unit, Number& number) {
    if (!epochs) return Status::ok();
    const Counts now{std::optional<std::int64_t>(number).value_or(0)};
    PACELINE_ASSIGN_OR_RETURN(const std::optional<Counts> counts, chosen(key, {*epochs}, unit, now));
    if (counts) {
      number = counts->front();
    } else {
      epochs.reset();
    }
    return Status::ok();
  }

  // What `epochs` come to; nothing where the key in versions or iterations, which has `now`, counts in their place.
  Result<std::optional<Counts>> chosen(const std::string& key, const std::vector<double>& epochs,
                                       const Unit& unit, const Counts& now) {
    if (epochs.empty()) return std::optional<Counts>();
    const std::string other = counted_key(key);
    Result<Counts> made = counted(key, epochs, unit);
    if (given_.has(other) && !(made.is_ok() && *made == now)) {
      // A file that says both, where an argument leaves open what an epoch has.
      if (!made.is_ok() && !is_argument(key)) {
        notes_.push_back(key + ": does not count, " + other + " does: " + made.status().message());
        return std::optional<Counts>();
      }
      if (made.is_ok() && is_argument(other) == is_argument(key) &&
          !(is_of_other_samples() && !is_argument(key))) {
        return refuse(key, "given twice", in_a_row(*made) + " here, and in " + other + " " + in_a_row(now),
                      "one of the two, or the same");
      }
    }
    PACELINE_RETURN_IF_ERROR(made.status());
    for (std::size_t i = 0; i < epochs.size(); ++i) {
      notes_.push_back(key + ": " + printed("%.6g", epochs[i]) +
                       (epochs[i] == 1.0 ? " epoch is " : " epochs are ") +
                       std::to_string((*made)[i] / unit.factor) + " " + unit.name + " of " +
                       std::to_string(unit.samples) + " samples");
    }
    given_.add(other, given_.place_of(key));
    return std::optional<Counts>(std::move(made).value());
  }

  // An argument may make another number of versions of a file that says both, as config.yaml does.
  bool is_of_other_samples() const {
    return std::ranges::any_of(kOfAnEpoch, [this](const char* key) { return is_argument(key); });
  }

  // In the unit of the other key.
  Result<Counts> counted(const std::string& key, const std::vector<double>& epochs, const Unit& unit) const {
    const std::string other = counted_key(key);
    const TrainSection& train = config_.train;
    // Where the fast do more, the slowest worker's clock does not say how many samples are learned from.
    if (key != "train.total_epochs" && train.share == Share::kPool && !in_lockstep(config_)) {
      return refuse(key, "how many samples a version has is not known",
                    std::string("share: pool with policy: ") + name_of(config_.sync.policy),
                    "share: even, policy: bsp or backup, or " + other);
    }
    if (train.local_time) {
      return refuse(key, "how many samples a round has is not known", "train.local_time", other);
    }
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t epoch, samples_of_epoch(key));
    Counts counts;
    for (const double one : epochs) {
      const double exact = one * static_cast<double>(epoch) / static_cast<double>(unit.samples);
      if (exact * static_cast<double>(unit.factor) > kCountMax) {
        return refuse(key, "too long", printed("%.6g epochs of %.6g", one, static_cast<double>(epoch)),
                      other + " up to 1e12");
      }
      if (std::llround(exact) < 1) {
        return refuse(key, "less than half a step of all workers",
                      printed("%.6g epochs, which are %.2g ", one, exact) + unit.name + " of " +
                          std::to_string(unit.samples) + " samples",
                      "more, or no value (null)");
      }
      counts.push_back(std::llround(exact) * unit.factor);
    }
    return counts;
  }

  Result<std::int64_t> samples_of_epoch(const std::string& key) const {
    const DataSection& data = config_.data;
    if (data.train_samples) return *data.train_samples;
    // Not into the configuration: with a length in iterations it would be another's.
    if (data.kind == DataKind::kCifar10 && !data.path.empty()) return kCifar10Samples;
    return refuse(key, "how many samples an epoch has is not known", "no data.train_samples",
                  data.kind == DataKind::kSynthetic
                      ? "data.train_samples, as many as `paceline data synthesize` has printed"
                      : "data.train_samples, or data.kind: cifar10 with a data.path");
  }

  RunConfig& config_;
  Given& given_;
  std::vector<std::string>& notes_;
};

}  // namespace

std::string Given::as_given(const std::string& path) const {
  const bool has_unit = path == "train.total_iterations" || path.ends_with("_versions");
  const std::string in_epochs = (has_unit ? path.substr(0, path.rfind('_')) : path) + "_epochs";
  const bool was_made =
      counted_key(in_epochs) == path && has(in_epochs) && place_of(in_epochs).line == place_of(path).line;
  return was_made ? in_epochs : path;
}

Status resolve_epochs(RunConfig& config, Given& given, std::vector<std::string>& notes) {
  Epochs epochs(config, given, notes);
  PACELINE_RETURN_IF_ERROR(epochs.length());
  PACELINE_RETURN_IF_ERROR(epochs.schedule(config.train.optimizer.schedule, "train.optimizer.schedule."));
  return epochs.schedule(config.train.inner_optimizer.schedule, "train.inner_optimizer.schedule.");
}

}  // namespace config

std::string counted_key(const std::string& path) {
  constexpr std::string_view kEpochs = "_epochs";
  if (!path.ends_with(kEpochs)) return path;
  const std::string stem = path.substr(0, path.size() - kEpochs.size());
  if (stem == "train.total") return "train.total_iterations";
  return stem.ends_with("step_at") ? stem : stem + "_versions";
}

}  // namespace paceline
