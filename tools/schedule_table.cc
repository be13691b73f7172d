#include "tools/schedule_table.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <ostream>

#include "common/schedule/check.h"
#include "common/schedule/planners.h"
#include "common/schedule/run_links.h"
#include "tools/text_table.h"

namespace paceline {
namespace {

// A time in seconds; none: it does not go with so many ranks.
using RowTimes = std::vector<std::optional<double>>;

std::string three_figures(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100.0 ? "%.3g" : "%.0f", value);
  return text;
}

Result<std::optional<double>> time_of(schedule::Algorithm algorithm, std::uint32_t ranks, std::int64_t bytes,
                                      const RunConfig& config) {
  if (algorithm == schedule::Algorithm::kHalvingDoubling && !std::has_single_bit(ranks)) {
    return std::optional<double>();
  }
  const auto floats = static_cast<std::int64_t>(bytes / static_cast<std::int64_t>(sizeof(float)));
  PACELINE_ASSIGN_OR_RETURN(const schedule::Plan plan, schedule::make_plan({algorithm, ranks, floats, {}}));
  PACELINE_RETURN_IF_ERROR(schedule::check(plan));
  const auto ends = schedule::reduction_times(schedule::programs_of(plan, config.cluster.gradient_encoding),
                                              schedule::links_of_run(config.simulate));
  return std::optional(*std::max_element(ends.begin(), ends.end()));
}

// "of 100000000 bytes faster than ring from 64 ranks on: torus"; of the table's least number on it is "throughout".
void print_crossings(const ScheduleTable& table, const std::vector<RowTimes>& times, std::ostream& out) {
  const auto ring = std::find(table.algorithms.begin(), table.algorithms.end(), schedule::Algorithm::kRing);
  if (ring == table.algorithms.end() || table.ranks.size() < 2) return;
  const auto base = static_cast<std::size_t>(ring - table.algorithms.begin());
  for (std::size_t b = 0; b < table.bytes.size(); ++b) {
    std::map<std::uint32_t, std::string> faster;  // by the number from which on
    for (std::size_t a = 0; a < table.algorithms.size(); ++a) {
      if (a == base) continue;
      std::uint32_t from = 0;  // it is faster at this and at all that follow; 0: at none
      for (std::size_t r = 0; r < table.ranks.size(); ++r) {
        const RowTimes& row = times[b * table.ranks.size() + r];
        if (!row[a]) continue;
        if (*row[a] >= *row[base]) {
          from = 0;
        } else if (from == 0) {
          from = table.ranks[r];
        }
      }
      if (from == 0) continue;
      std::string& names = faster[from];
      names += (names.empty() ? "" : ", ") + std::string(schedule::name_of(table.algorithms[a]));
    }
    for (const auto& [from, names] : faster) {
      out << "of " << table.bytes[b] << " bytes faster than ring "
          << (from == table.ranks.front() ? "throughout" : "from " + std::to_string(from) + " ranks on")
          << ": " << names << "\n";
    }
  }
}

}  // namespace

std::string milliseconds_text(double seconds) { return three_figures(seconds * 1e3) + " ms"; }

std::string words_of_links(const RunConfig& config) {
  const SimulatedNetwork& network = config.simulate.network;
  std::string bandwidth = "links without a limit (simulate.network.bandwidth)";
  if (network.bandwidth.size() > 1) {
    bandwidth = "links of single nodes";
  } else if (network.bandwidth.front()) {
    bandwidth = std::to_string(*network.bandwidth.front()) + " bytes a second";
  }
  return bandwidth + ", latency " + three_figures(to_seconds(network.latency) * 1e6) + " us, " +
         three_figures(to_seconds(config.simulate.costs.message) * 1e6) + " us for each message and " +
         three_figures(config.simulate.costs.apply) + " ns for each float added";
}

Status print_table(const ScheduleTable& table, const RunConfig& config, std::ostream& out) {
  if (config.simulate.network.bandwidth.size() > 1) {
    return invalid_argument("--ranks: got " + std::to_string(config.simulate.network.bandwidth.size()) +
                            " values in simulate.network.bandwidth, expected one for all ranks");
  }
  TextTable text;
  text.title = "ms, with " + words_of_links(config);
  text.columns = {{"bytes"}, {"ranks"}};
  for (const schedule::Algorithm algorithm : table.algorithms)
    text.columns.push_back({schedule::name_of(algorithm)});
  text.columns.push_back({"fastest", Align::kLeft});
  std::vector<RowTimes> times;
  for (const std::int64_t bytes : table.bytes) {
    for (const std::uint32_t ranks : table.ranks) {
      std::vector<TextCell> row = {{std::to_string(bytes)}, {std::to_string(ranks)}};
      RowTimes& taken = times.emplace_back();
      double least = std::numeric_limits<double>::infinity();
      std::string fastest;
      for (const schedule::Algorithm algorithm : table.algorithms) {
        PACELINE_ASSIGN_OR_RETURN(const std::optional<double> time, time_of(algorithm, ranks, bytes, config));
        taken.push_back(time);
        row.push_back({time ? three_figures(*time * 1e3) : "-"});
        if (time.value_or(least) < least) least = *time, fastest = schedule::name_of(algorithm);
      }
      row.push_back({fastest});
      text.rows.push_back(std::move(row));
    }
  }
  out << rendered(text, TextStyle::kPlain) << "\nchecked\n";
  print_crossings(table, times, out);
  return Status::ok();
}

}  // namespace paceline
