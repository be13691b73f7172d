#include "sweep/points.h"

#include <memory>
#include <utility>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "common/fnv1a.h"
#include "simulate/plan.h"
#include "simulate/trace.h"
#include "worker/network_task.h"

namespace paceline::sweep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfigBytesMax = 4 << 20;  // as common/config/load.cc
constexpr std::size_t kCurveBytesMax = std::size_t{1} << 26;

// What is said in epochs counts as what it comes to.
std::uint64_t hash_of(RunConfig config) {
  config.run.out.clear();
  std::uint64_t hash = kFnv1aBasis;
  for (const auto& [key, value] : effective_values(config)) {
    if (counted_key(key) == key) hash = fnv1a(key + "=" + value + "\n", hash);
  }
  return hash;
}

}  // namespace

Result<Points> Points::read(const std::string& config_path, Grid grid, const std::optional<fs::path>& trace) {
  Points points;
  PACELINE_ASSIGN_OR_RETURN(points.text_, read_file(config_path, kConfigBytesMax));
  points.config_path_ = config_path;
  points.grid_ = std::move(grid);
  points.trace_ = trace;
  Files files;
  if (trace) {
    PACELINE_ASSIGN_OR_RETURN(files.traced, simulate::TracedRun::read(*trace));
  }
  for (std::size_t p = 0; p < points.grid_.points(); ++p) {
    PACELINE_RETURN_IF_ERROR(points.check(p, files));
  }
  PACELINE_RETURN_IF_ERROR(points.check_distinct());
  std::uint64_t hash = kFnv1aBasis;
  for (const std::uint64_t of_point : points.hashes_) hash = fnv1a(std::to_string(of_point), hash);
  for (const auto& [path, of_file] : files.contents) hash = fnv1a(std::to_string(of_file), hash);
  points.fingerprint_ = hash;
  return points;
}

Status Points::check(std::size_t point, Files& files) {
  const std::string which = grid_.points() == 1
                                ? "the point"
                                : "point " + std::to_string(point + 1) + " of " +
                                      std::to_string(grid_.points()) + ", " + grid_.label(point);
  Result<RunConfig> config = parse_config(text_, config_path_, grid_.overrides(point), LoadFor::kReading);
  if (!config) return Status(config.status()).with_context(which);
  std::unique_ptr<simulate::ComputeTimes> drawn;
  if (files.traced) {
    Result<simulate::Trace> traced = files.traced->trace_for(*config);
    if (!traced) return Status(traced.status()).with_context(which);
    *config = std::move(traced->calibrated);
    // By no path, as it may be named in several ways.
    files.contents.insert_or_assign("", traced->fingerprint);
    drawn = std::move(traced->compute_times);
  }
  if (const auto plan = simulate::make_plan(*config, std::move(drawn)); !plan) {
    return Status(plan.status()).with_context(which);
  }
  const std::string data = config->data.path + "/";
  if (config->simulate.mode == SimulateMode::kTraining && !files.contents.contains(data)) {
    const Result<std::uint64_t> held = check_data(*config);
    if (!held) return Status(held.status()).with_context(which);
    files.contents.emplace(data, *held);
  }
  const std::string& curve = config->simulate.metric.curve;
  if (!curve.empty() && !files.contents.contains(curve)) {
    PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(curve, kCurveBytesMax));
    files.contents.emplace(curve, fnv1a(text));
  }
  hashes_.push_back(hash_of(*config));
  return Status::ok();
}

Status Points::check_distinct() const {
  std::map<std::uint64_t, std::size_t> seen;
  for (std::size_t point = 0; point < size(); ++point) {
    const auto [first, is_new] = seen.emplace(hashes_[point], point);
    if (is_new) continue;
    return invalid_argument("point " + std::to_string(point + 1) + " of " + std::to_string(size()) + ", " +
                            grid_.label(point) + ": the same configuration as point " +
                            std::to_string(first->second + 1) + ", " + grid_.label(first->second) +
                            ", expected each once");
  }
  return Status::ok();
}

RunConfig Points::config(std::size_t point) const {
  Result<RunConfig> config = parse_config(text_, config_path_, grid_.overrides(point), LoadFor::kReading);
  PACELINE_ASSERT(config.is_ok(), "every point was loaded before: " + config.status().message());
  return std::move(config).value();
}

bool Points::is_config_of(std::size_t point, const RunConfig& run) const {
  return hash_of(run) == hashes_[point];
}

}  // namespace paceline::sweep
