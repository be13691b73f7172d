// What the page of `paceline report --html` shows, out of the run directories: one JSON text, which web/src/
// draws (docs/REPORT.md lists what is in it). Whatever a directory lacks is left out and named, so that a run
// that crashed, or one of an older version, still shows what is there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/page/clock_range.h"
#include "common/status.h"

namespace paceline {

// A number of a run's curve at a time and a version.
struct CurvePoint {
  double seconds = 0.0;
  std::int64_t version = 0;
  double value = 0.0;
  std::optional<std::int64_t> iterations = {};

  bool operator==(const CurvePoint&) const = default;
};

// At most `most` (>= 4) of the points: the first, the last, and of each stretch between them the least and
// the greatest value, so that a line through them shows every peak. All of them where there are no more.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t most);

// Of a live run, whose page is asked for again and again, no trace is read before it is over.
enum class PageOf { kReport, kLiveRun };

struct PageData {
  // ASCII, without < > &: it may stand in an HTML element and cannot end it.
  std::string json;
  std::vector<std::string> missing;  // "runs/a: cannot read phases.csv: No such file or directory"
};

// Of at least one folder, in their order. However long the runs, the text stays below 2.2 MB for ten of
// them: curves are thinned to 20,000 points for the whole page, and of more than 1,000 workers the others are
// only in the sums of their nodes. `clocks`: the iterations that timelines show; none, the newest. Errors:
// kNotFound, no such directory.
Result<PageData> page_data(std::span<const std::string> folders,
                           const std::optional<ClockRange>& clocks = std::nullopt,
                           PageOf what = PageOf::kReport);

}  // namespace paceline
