// Keys in epochs, for schedules and lengths that do not change with the number of workers. They are made into what the
// rest goes by, versions and iterations, once and while a configuration is loaded: so daemons, checkpoints and a
// resume see nothing else.
//
//   versions     the nearest whole number to epochs x N / (n k), at least 1: N samples of an epoch, n batch_size, k the
//                iterations of a clock (planned.h); a schedule counts mini-batches of each worker, so local steps
//                change nothing
//   iterations   the nearest whole number of rounds of all workers, at least one of each
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

class Epochs {
 public:
  Epochs(RunConfig& config, Given& given, std::vector<std::string>& notes)
      : config_(config), given_(given), notes_(notes) {}

  Status length() {
    std::optional<double>& epochs = config_.train.total_epochs;
    if (!epochs) return Status::ok();
    const std::int64_t round = iterations_of_a_clock(config_) * config_.train.local_steps;
    PACELINE_ASSIGN_OR_RETURN(
        const Counts rounds,
        counted("train.total_epochs", {*epochs}, {round * config_.train.batch_size, "rounds", round}));
    if (rounds) config_.train.total_iterations = rounds->front() * round;
    epochs.reset();
    return Status::ok();
  }

  // `at`: "train.optimizer.schedule.".
  Status schedule(ScheduleSection& s, const std::string& at) {
    PACELINE_ASSIGN_OR_RETURN(const Counts warmup, one(s.warmup_epochs, at + "warmup_epochs"));
    PACELINE_ASSIGN_OR_RETURN(const Counts step, one(s.step_epochs, at + "step_epochs"));
    PACELINE_ASSIGN_OR_RETURN(const Counts total, one(s.total_epochs, at + "total_epochs"));
    PACELINE_ASSIGN_OR_RETURN(Counts turns, versions(s.step_at_epochs, at + "step_at_epochs"));
    if (warmup) s.warmup_versions = warmup->front();
    if (step) s.step_versions = step->front();
    if (total) s.total_versions = total->front();
    if (turns) s.step_at = *std::move(turns);
    s.warmup_epochs = s.step_epochs = s.total_epochs = std::nullopt;
    s.step_at_epochs.clear();
    return Status::ok();
  }

 private:
  using Counts = std::optional<std::vector<std::int64_t>>;
  struct Unit {
    std::int64_t samples = 1;
    const char* name = "versions";
    std::int64_t factor = 1;  // of one in the key that counts them
  };

  Status refuse(const std::string& key, const std::string& what, const std::string& got,
                const std::string& expected) const {
    return invalid_argument(format_error(given_.place_of(key), key, what, got, expected));
  }

  Result<Counts> one(const std::optional<double>& epochs, const std::string& key) {
    return versions(epochs ? std::vector<double>{*epochs} : std::vector<double>{}, key);
  }

  // Where the fast do more, the slowest worker's clock does not say how many samples are learned from.
  Result<Counts> versions(const std::vector<double>& epochs, const std::string& key) {
    if (epochs.empty()) return Counts();
    const TrainSection& train = config_.train;
    if (train.share == Share::kPool && !in_lockstep(config_)) {
      return refuse(key, "how many samples a version has is not known",
                    std::string("share: pool with policy: ") + name_of(config_.sync.policy),
                    "share: even, policy: bsp or backup, or " + counted_key(key));
    }
    return counted(key, epochs, {train.batch_size * iterations_of_a_clock(config_)});
  }

  // What `key` says; nothing where an argument says it in the other key, and the file in this one.
  Result<Counts> counted(const std::string& key, const std::vector<double>& epochs, const Unit& unit) {
    const std::string other = counted_key(key);
    if (given_.has(other)) {
      const bool is_argument = given_.place_of(key).line == 0;
      const bool other_is = given_.place_of(other).line == 0;
      if (is_argument == other_is) return refuse(key, "said twice", "a value here and in " + other, "one");
      if (other_is) return Counts();
    }
    if (config_.train.local_time) {
      return refuse(key, "how many samples a round has is not known", "train.local_time", other);
    }
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t epoch, samples_of_epoch(key));
    std::vector<std::int64_t> counts;
    for (const double one : epochs) {
      const double exact = one * static_cast<double>(epoch) / static_cast<double>(unit.samples);
      if (exact * static_cast<double>(unit.factor) > kCountMax) {
        return refuse(key, "too long", printed("%.6g epochs of %.6g", one, static_cast<double>(epoch)),
                      other + " up to 1e12");
      }
      counts.push_back(std::max<std::int64_t>(1, std::llround(exact)));
      notes_.push_back(key + ": " + printed("%.6g", one) + (one == 1.0 ? " epoch is " : " epochs are ") +
                       std::to_string(counts.back()) + " " + unit.name + " of " +
                       std::to_string(unit.samples) + " samples");
    }
    given_.add(other, given_.place_of(key));
    return Counts(std::move(counts));
  }

  Result<std::int64_t> samples_of_epoch(const std::string& key) {
    const DataSection& data = config_.data;
    if (data.train_samples) return *data.train_samples;
    // Not into the configuration: with a length in iterations it would be another's.
    if (data.kind == DataKind::kCifar10 && !data.path.empty()) return kCifar10Samples;
    return refuse(key, "how many samples an epoch has is not known", "no data.train_samples",
                  "data.train_samples, or data.kind: cifar10 with a data.path");
  }

  RunConfig& config_;
  Given& given_;
  std::vector<std::string>& notes_;
};

}  // namespace

std::string Given::as_said(const std::string& path) const {
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
