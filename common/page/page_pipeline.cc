#include "common/page/page_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/page/traced_step.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t microseconds(double seconds) { return std::llround(1e6 * seconds); }

// Before which the first `most` passes begin.
double first_end(const std::vector<std::vector<schedule::PassTime>>& rows, std::size_t most,
                 std::size_t& passes) {
  std::vector<double> begins;
  for (const auto& row : rows) {
    for (const schedule::PassTime& pass : row) begins.push_back(pass.begin);
  }
  passes = begins.size();
  if (passes <= most) return std::numeric_limits<double>::infinity();
  const auto end = begins.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(begins.begin(), end, begins.end());
  return *end;
}

}  // namespace

Json page_pipeline(const trace::Trace& trace, std::size_t stages, std::size_t most) {
  const auto step = median_step(trace, stages);
  if (!step) return nullptr;
  std::size_t passes = 0;
  const double end = first_end(step->times.rows, most, passes);
  Json rows = Json::array();
  for (const auto& row : step->times.rows) {
    Json own = Json::array();
    for (const schedule::PassTime& pass : row) {
      if (pass.begin >= end) continue;
      own.push_back({static_cast<int>(pass.row.pass), pass.row.micro_batch, microseconds(pass.begin),
                     microseconds(pass.end - pass.begin), pass.row.chunk});
    }
    rows.push_back(std::move(own));
  }
  return {{"clock", step->clock.value},           {"of", step->of},   {"step", step->times.step},
          {"bubble", step->times.bubble_share()}, {"passes", passes}, {"rows", std::move(rows)}};
}

}  // namespace paceline
