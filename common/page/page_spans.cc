#include "common/page/page_spans.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;
using Workers = std::vector<const trace::WorkerSpans*>;

constexpr Ticks kNever{std::numeric_limits<std::int64_t>::max()};

// Which spans are shown: those that begin in [begin, end), and are of `clocks` where that says something.
struct Shown {
  Ticks begin;
  Ticks end = kNever;
  std::optional<ClockRange> clocks;

  bool has(const PhaseSpan& span) const {
    return span.begin >= begin && span.begin < end && (!clocks || clocks->contains(span.clock));
  }
};

// From where on all spans of these workers are at most `most`.
Shown newest(const Workers& workers, std::size_t most) {
  std::vector<Ticks> ends;
  for (const trace::WorkerSpans* const worker : workers) {
    for (const PhaseSpan& span : worker->spans) ends.push_back(span.end());
  }
  if (ends.empty()) return {Ticks(0), kNever, {}};
  const auto first = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() > most ? ends.size() - most : 0);
  std::nth_element(ends.begin(), first, ends.end());
  return {*first, kNever, {}};
}

// The first `most` of these clocks, and what there is of them.
Shown of_clocks(const Workers& workers, const ClockRange& clocks, std::size_t most, Json& asked) {
  std::vector<Ticks> begins;
  std::optional<ClockRange> traced;
  for (const trace::WorkerSpans* const worker : workers) {
    for (const PhaseSpan& span : worker->spans) {
      if (!traced) traced = ClockRange{span.clock, span.clock};
      traced = ClockRange{std::min(traced->first, span.clock), std::max(traced->last, span.clock)};
      if (clocks.contains(span.clock)) begins.push_back(span.begin);
    }
  }
  asked = {{"clocks", {clocks.first.value, clocks.last.value}},
           {"phases", begins.size()},
           {"traced", traced ? Json{traced->first.value, traced->last.value} : Json()}};
  if (begins.empty()) return {Ticks(0), kNever, clocks};
  const Ticks begin = *std::min_element(begins.begin(), begins.end());
  if (begins.size() <= most) return {begin, kNever, clocks};
  const auto end = begins.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(begins.begin(), end, begins.end());
  return {begin, std::max(*end, begin + std::chrono::nanoseconds(1)), clocks};
}

}  // namespace

void add_spans(Json& page, const Workers& workers, Ticks origin, const SpanLimits& limits) {
  const std::size_t most = std::max<std::size_t>(limits.most, 1);
  const Shown shown =
      limits.clocks ? of_clocks(workers, *limits.clocks, most, page["asked"]) : newest(workers, most);
  page["spans_from"] = to_seconds(shown.begin - origin);
  for (const trace::WorkerSpans* const worker : workers) {
    Json own = Json::array();
    for (const PhaseSpan& span : worker->spans) {
      if (!shown.has(span)) continue;
      own.push_back({static_cast<int>(span.phase), (span.begin - shown.begin).count() / 1000,
                     span.length.count() / 1000, span.clock.value});
    }
    page["spans"].push_back(std::move(own));
  }
}

}  // namespace paceline
