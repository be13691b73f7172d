#include "sweep/points.h"

#include <memory>
#include <string_view>
#include <utility>

#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "simulate/plan.h"
#include "simulate/trace.h"

namespace paceline::sweep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kConfigBytesMax = 4 << 20;  // as common/config/load.cc
constexpr std::size_t kTraceBytesMax = std::size_t{1} << 30;
constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;

// FNV-1a, 64 bit.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint64_t hash_of(RunConfig config) {
  config.run.out.clear();
  return hash_of(to_yaml(config));
}

}  // namespace

Result<Points> Points::read(const std::string& config_path, Grid grid, const std::optional<fs::path>& trace) {
  Points points;
  PACELINE_ASSIGN_OR_RETURN(points.text_, read_file(config_path, kConfigBytesMax));
  points.config_path_ = config_path;
  points.grid_ = std::move(grid);
  points.trace_ = trace;
  for (std::size_t p = 0; p < points.grid_.points(); ++p) PACELINE_RETURN_IF_ERROR(points.check(p));
  std::uint64_t hash = kFnvBasis;
  for (const std::uint64_t of_point : points.hashes_) hash = hash_of(std::to_string(of_point), hash);
  if (trace) {  // what calibration does not show
    PACELINE_ASSIGN_OR_RETURN(const std::string drawn,
                              read_file(*trace / "phases_histogram.csv", kTraceBytesMax));
    hash = hash_of(drawn, hash);
  }
  points.fingerprint_ = hash;
  return points;
}

Status Points::check(std::size_t point) {
  const std::string which = grid_.points() == 1
                                ? "the point"
                                : "point " + std::to_string(point + 1) + " of " +
                                      std::to_string(grid_.points()) + ", " + grid_.label(point);
  Result<RunConfig> config = parse_config(text_, config_path_, grid_.overrides(point));
  if (!config) return Status(config.status()).with_context(which);
  std::unique_ptr<simulate::ComputeTimes> drawn;
  if (trace_) {
    Result<simulate::Trace> traced = simulate::read_trace(*trace_, *config);
    if (!traced) return Status(traced.status()).with_context(which);
    *config = std::move(traced->calibrated);
    drawn = std::move(traced->compute_times);
  }
  if (const auto plan = simulate::make_plan(*config, std::move(drawn)); !plan) {
    return Status(plan.status()).with_context(which);
  }
  hashes_.push_back(hash_of(*config));
  return Status::ok();
}

RunConfig Points::config(std::size_t point) const {
  Result<RunConfig> config = parse_config(text_, config_path_, grid_.overrides(point));
  PACELINE_ASSERT(config.is_ok(), "every point was loaded before: " + config.status().message());
  return std::move(config).value();
}

bool Points::is_config_of(std::size_t point, const RunConfig& run) const {
  return hash_of(run) == hashes_[point];
}

}  // namespace paceline::sweep
