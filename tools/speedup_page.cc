#include "tools/speedup_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace paceline {
namespace {

// Of the lines: costs of an exchange from a thousandth of a mini-batch to a thousand of them.
constexpr double kLeast = 1e-3;
constexpr double kDecades = 6.0;
constexpr int kPointsOfALine = 120;
constexpr double kWidth = 640.0, kHeight = 320.0, kMargin = 48.0;
constexpr const char* kColours[] = {"#1b6ca8", "#c8553d", "#4c8c2b", "#7b4fa3", "#a07400", "#2a8c8c"};

template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream all;
  (all << ... << parts);
  return all.str();
}

// Three digits of it.
std::string brief(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.3g", value);
  return digits;
}

struct Axes {
  double top;  // the largest speed-up that is drawn

  double x(double exchange) const { return kMargin + std::log10(exchange / kLeast) / kDecades * kWidth; }
  double y(double speedup) const { return kMargin + (1.0 - speedup / top) * kHeight; }
};

template <typename SpeedupAt>
std::string line(const Axes& axes, const char* colour, const char* dashes, const SpeedupAt& at) {
  std::string points;
  for (int i = 0; i <= kPointsOfALine; ++i) {
    const double exchange = kLeast * std::pow(10.0, kDecades * i / kPointsOfALine);
    if (const std::optional<double> y = at(exchange)) points += text(axes.x(exchange), ",", axes.y(*y), " ");
  }
  return text("<polyline fill='none' stroke='", colour, "' stroke-width='2' stroke-dasharray='", dashes,
              "' points='") +
         points + "'/>\n";
}

std::optional<double> best_speedup(const SpeedupPage& page, std::int64_t workers, double exchange) {
  const sweep::RoundsNeeded* const best = sweep::best_run(page.serial, page.runs, workers, exchange);
  return best == nullptr ? std::nullopt : sweep::speedup(page.serial, *best, exchange);
}

std::string lines(const SpeedupPage& page) {
  Axes axes{1.0};
  for (const std::int64_t workers : page.workers) {
    axes.top = std::max(
        {axes.top, sweep::naive_speedup(workers, kLeast), best_speedup(page, workers, kLeast).value_or(0.0)});
  }
  std::string svg = text("<svg viewBox='0 0 ", kWidth + 3 * kMargin, " ", kHeight + 2 * kMargin,
                         "' role='img' aria-label='speed-up by the cost of an exchange'>\n");
  for (int decade = 0; decade <= static_cast<int>(kDecades); ++decade) {
    const double exchange = kLeast * std::pow(10.0, decade);
    svg += text("<line x1='", axes.x(exchange), "' x2='", axes.x(exchange), "' y1='", axes.y(axes.top),
                "' y2='", axes.y(0.0), "' class='grid'/>");
    svg += text("<text x='", axes.x(exchange), "' y='", axes.y(0.0) + 18, "' text-anchor='middle'>", exchange,
                "</text>\n");
  }
  for (const double speedup : {1.0, axes.top}) {
    svg += text("<line x1='", axes.x(kLeast), "' x2='", axes.x(kLeast) + kWidth, "' y1='", axes.y(speedup),
                "' y2='", axes.y(speedup), "' class='grid'/>");
    svg += text("<text x='", axes.x(kLeast) - 6, "' y='", axes.y(speedup) + 4, "' text-anchor='end'>",
                brief(speedup), "</text>\n");
  }
  std::size_t place = 0;
  for (const std::int64_t workers : page.workers) {
    if (workers == 1) continue;
    const char* const colour = kColours[place % std::size(kColours)];
    svg +=
        line(axes, colour, "5 4", [&](double s) { return std::optional(sweep::naive_speedup(workers, s)); });
    svg += line(axes, colour, "none", [&](double s) { return best_speedup(page, workers, s); });
    svg +=
        text("<text x='", axes.x(kLeast) + kWidth + 8, "' y='", kMargin + 18.0 * static_cast<double>(place),
             "' fill='", colour, "'>", workers, " workers</text>\n");
    ++place;
  }
  if (page.measured) {  // at the edge, where it lies beyond
    const double x = axes.x(std::clamp(*page.measured, kLeast, kLeast * std::pow(10.0, kDecades)));
    svg += text("<line x1='", x, "' x2='", x, "' y1='", axes.y(axes.top), "' y2='", axes.y(0.0),
                "' stroke='#888' stroke-width='2'/>");
    svg += text("<text x='", x, "' y='", kMargin - 8,
                "' text-anchor='middle'>measured: ", brief(*page.measured), "</text>\n");
  }
  return svg + "</svg>\n";
}

// A worker's part of the gain: white is nothing, full colour as many times as there are workers.
std::string cell_of(const SpeedupPage& page, const sweep::RoundsNeeded& run) {
  const std::optional<double> gain = sweep::speedup(page.serial, run, 0.0);
  if (!gain) return "<td>never</td>";
  const double share = std::clamp(*gain / static_cast<double>(run.workers), 0.0, 1.0);
  return text("<td style='background:rgba(27,108,168,", 0.8 * share, ")' title='", *run.rounds, " rounds'>",
              brief(*gain), run.at_first_evaluation ? "*" : "", "</td>");
}

// Of several runs of the same two, as with a third axis, the best; of none an empty one.
std::string cell(const SpeedupPage& page, std::int64_t workers, std::int64_t local_steps) {
  std::vector<sweep::RoundsNeeded> of_cell;
  for (const sweep::RoundsNeeded& run : page.runs) {
    if (run.workers == workers && run.local_steps == local_steps) of_cell.push_back(run);
  }
  if (of_cell.empty()) return "<td></td>";
  const sweep::RoundsNeeded* const best = sweep::best_run(page.serial, of_cell, workers, 0.0);
  return cell_of(page, best == nullptr ? of_cell.front() : *best);
}

std::string map(const SpeedupPage& page) {
  std::string table = "<table><tr><th>workers</th>";
  for (const std::int64_t steps : page.local_steps) table += text("<th>", steps, "</th>");
  table += "</tr>\n";
  for (const std::int64_t workers : page.workers) {
    table += text("<tr><th>", workers, "</th>");
    for (const std::int64_t steps : page.local_steps) table += cell(page, workers, steps);
    table += "</tr>\n";
  }
  return table + "</table>\n";
}

}  // namespace

std::string speedup_page(const SpeedupPage& page) {
  return "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>When local steps pay</title>\n"
         "<style>body{font:15px sans-serif;margin:2em;max-width:60em}td,th{padding:.4em "
         ".8em;text-align:right}"
         "svg{max-width:100%}.grid{stroke:#ccc}</style></head><body>\n<h1>When local steps pay</h1>\n" +
         text("<p>To a test accuracy of ", 100 * page.target, " % one worker alone needs ", page.serial,
              " mini-batches.</p>\n") +
         "<h2>Gain, by workers (down) and local steps (across), were exchanges free</h2>\n" + map(page) +
         (page.remarks.empty() ? "" : "<p>" + page.remarks + "</p>\n") +
         "<h2>Speed-up by what an exchange costs, in mini-batches</h2>\n"
         "<p>Full: the best number of local steps. Dashed: the naive scheme, which exchanges each "
         "mini-batch's "
         "gradient.</p>\n" +
         lines(page) + "</body></html>\n";
}

}  // namespace paceline
