// sweep.dat (table.h).
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "common/report/csv.h"
#include "sweep/table.h"

namespace paceline::sweep {
namespace {

bool is_seed(const Axis& axis) { return axis.keys() == std::vector<std::string>{"run.seed"}; }

// The axis along x: the last that is swept; none where nothing is, but seeds.
std::optional<std::size_t> x_axis(const Grid& grid) {
  for (std::size_t a = grid.axes().size(); a-- > 0;) {
    if (grid.axes()[a].alternatives.size() > 1 && !is_seed(grid.axes()[a])) return a;
  }
  return std::nullopt;
}

std::optional<double> number(const std::string& text) {
  double value = 0.0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// Where each alternative stands on the x axis.
std::vector<double> places(const Axis& axis) {
  std::vector<double> places;
  for (const Alternative& alternative : axis.alternatives) {
    const std::optional<double> value = alternative.size() == 1 ? number(alternative[0].value) : std::nullopt;
    if (!value) break;
    places.push_back(*value);
  }
  if (places.size() == axis.alternatives.size()) return places;
  places.clear();
  for (std::size_t i = 0; i < axis.alternatives.size(); ++i) places.push_back(static_cast<double>(i));
  return places;
}

// The runs of each x (by its alternative) of each series (by its alternatives on the other axes).
using Runs = std::vector<const Row*>;
using Series = std::map<std::vector<std::size_t>, std::map<std::size_t, Runs>>;

std::string three(const Runs& runs, std::size_t of) {
  double sum = 0.0;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Row* run : runs) {
    const double value = run->values[of];
    const bool counts = of == quantity("s_to_target") ? run->faultless : run->complete;
    if (!counts || std::isnan(value)) return " NaN NaN NaN";
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return " " + csv::text_of(sum / static_cast<double>(runs.size())) + " " + csv::text_of(low) + " " +
         csv::text_of(high);
}

// "slowdown=1-1-2-3": what is swept beside x; "all" where nothing is.
std::string title(const Grid& grid, const std::vector<std::size_t>& chosen, std::optional<std::size_t> x) {
  std::string title;
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    const Axis& axis = grid.axes()[a];
    if (axis.alternatives.size() == 1 || a == x || is_seed(axis)) continue;
    title += (title.empty() ? "" : " ") + grid.label(axis.alternatives[chosen[a]]);
  }
  return title.empty() ? "all" : title;
}

std::string columns() {
  std::string text = "# 1 x as text  2 x  3 runs";
  std::size_t column = 4;
  for (const char* name : kQuantities) {
    text += "  " + std::to_string(column) + " " + name;
    column += 3;
  }
  return text + "  (each: mean, smallest, largest)\n";
}

}  // namespace

std::string plot_blocks(const Points& points, const Rows& rows) {
  const Grid& grid = points.grid();
  const std::optional<std::size_t> x = x_axis(grid);
  Series all;
  for (const auto& [point, row] : rows) {
    std::vector<std::size_t> chosen = grid.at(point);
    const std::size_t at = x ? std::exchange(chosen[*x], 0) : 0;
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      if (is_seed(grid.axes()[a])) chosen[a] = 0;
    }
    all[chosen][at].push_back(&row);
  }
  const std::vector<double> xs = x ? places(grid.axes()[*x]) : std::vector<double>{0.0};
  std::string text = columns();
  for (const auto& [chosen, of_series] : all) {
    text += (chosen == all.begin()->first ? "\"" : "\n\n\"") + title(grid, chosen, x) + "\"\n";
    for (const auto& [at, runs] : of_series) {
      const std::string label = x ? grid.label(grid.axes()[*x].alternatives[at]) : "all";
      text += "\"" + label + "\" " + csv::text_of(xs[at]) + " " + std::to_string(runs.size());
      for (std::size_t q = 0; q < kQuantities.size(); ++q) text += three(runs, q);
      text += "\n";
    }
  }
  return text;
}

}  // namespace paceline::sweep
