#include "tools/sum_waits.h"

#include <algorithm>
#include <limits>

namespace paceline {
namespace {

using std::chrono::nanoseconds;
using trace::DecisionKind;

constexpr Ticks kNever{std::numeric_limits<std::int64_t>::max()};

// In equal parts.
void share(SumWaits::Times& times, const std::vector<NodeId>& nodes, nanoseconds time) {
  if (time.count() == 0) return;
  for (const NodeId node : nodes) {
    times[WorkerId(node, 0)] += time / static_cast<std::int64_t>(nodes.size());
  }
}

// The first that ends after `at`. Spans are in order, and none overlaps another.
std::vector<BucketSpan>::const_iterator first_after(const std::vector<BucketSpan>& spans, Ticks at) {
  return std::lower_bound(spans.begin(), spans.end(), at, [](const BucketSpan& span, Ticks from) {
    return span.begin + span.length <= from;
  });
}

}  // namespace

nanoseconds SumWaits::Stretch::length() const { return std::max(end - begin, nanoseconds(0)); }

SumWaits::SumWaits(const trace::Trace& trace, std::uint32_t stages) : stages_(stages) {
  add_formations(trace);
  for (const trace::BucketSpans& node : trace.buckets) {
    if (!node.spans.empty()) spans_[node.node] = &node.spans;
    for (const BucketSpan& span : node.spans) {
      begun_[{node.node.value % stages, span.clock, span.bucket, span.copies}].push_back(
          {{span.began(), span.begin + span.length}, node.node});
    }
  }
}

// Who is lost leaves the core with the step that the others make, or have made: after the formation, or before it.
void SumWaits::add_formations(const trace::Trace& trace) {
  for (const trace::Decision& d : trace.decisions) {
    if (d.kind == DecisionKind::kParted) {
      if (d.node && !formations_.empty()) std::erase(formations_.back().lost, *d.node);
      formations_.push_back({{d.at, kNever}, {}});
      if (d.node) formations_.back().lost.push_back(*d.node);
    }
    if (formations_.empty()) continue;
    Formation& newest = formations_.back();
    if (d.kind == DecisionKind::kFormed) newest.gathered.end = d.at;
    if (d.kind != DecisionKind::kLost || !d.node) continue;
    const bool is_new = std::find(newest.lost.begin(), newest.lost.end(), *d.node) == newest.lost.end();
    if (is_new) newest.lost.push_back(*d.node);
  }
}

const std::vector<BucketSpan>* SumWaits::spans_of(NodeId node) const {
  const auto found = spans_.find(node);
  return found == spans_.end() ? nullptr : found->second;
}

Ticks SumWaits::summed_again(NodeId node, const Formation& formation, Ticks end) const {
  if (formation.gathered.end >= end) return end;
  const std::vector<BucketSpan>* const spans = spans_of(node);
  if (spans == nullptr) return formation.gathered.end;
  const auto next = first_after(*spans, formation.gathered.end);
  const bool sums = next != spans->end() && next->begin < end;
  return sums ? std::max(formation.gathered.end, next->begin) : formation.gathered.end;
}

// Of the node's buckets of that step in that stretch.
void SumWaits::add_buckets(NodeId node, Clock clock, const Stretch& within, Parts& parts) const {
  const std::vector<BucketSpan>* const spans = spans_of(node);
  if (spans == nullptr) return;
  for (auto span = first_after(*spans, within.begin); span != spans->end() && span->begin < within.end;
       ++span) {
    if (span->clock != clock) continue;
    const Begun own{{span->began(), span->begin + span->length}, node};
    const Begun* last = &own;
    for (const Begun& other : begun_.at({node.value % stages_, clock, span->bucket, span->copies})) {
      // Where a step was made anew, its buckets are there twice.
      const bool is_the_same = other.span.begin < own.span.end && own.span.begin < other.span.end;
      if (is_the_same && other.span.begin > last->span.begin) last = &other;
    }
    const Stretch late{std::max(span->begin, within.begin),
                       std::min({last->span.begin, own.span.end, within.end})};
    if (last != &own && late.length().count() > 0) parts.sum_for[WorkerId(last->node, 0)] += late.length();
  }
}

SumWaits::Parts SumWaits::of(NodeId node, Clock clock, Ticks begin, Ticks end,
                             std::optional<Ticks> reported) const {
  Parts parts;
  auto formation = std::lower_bound(formations_.begin(), formations_.end(), begin,
                                    [](const Formation& f, Ticks at) { return f.gathered.end <= at; });
  Ticks from = begin;  // so far it is accounted for
  for (; formation != formations_.end() && formation->gathered.begin < end; ++formation) {
    const Stretch before{from, formation->gathered.begin};
    parts.sum += before.length();
    share(parts.sum_for, formation->lost, before.length());
    const auto next = std::next(formation);
    const Ticks over = next == formations_.end() ? end : std::min(end, next->gathered.begin);
    const Stretch gathered{std::max(from, before.end), summed_again(node, *formation, over)};
    parts.formation += gathered.length();
    share(parts.formation_for, formation->lost, gathered.length());
    from = std::max(from, gathered.end);
  }
  Ticks summed = from;
  bool any = false;
  if (const std::vector<BucketSpan>* const spans = spans_of(node)) {
    for (auto span = first_after(*spans, from); span != spans->end() && span->begin < end; ++span) {
      if (span->clock != clock) continue;
      summed = std::min(span->begin + span->length, end);
      any = true;
    }
  }
  if (!any && reported) summed = std::clamp(*reported, from, end);
  const Stretch last{from, summed};
  parts.sum += last.length();
  add_buckets(node, clock, last, parts);
  return parts;
}

}  // namespace paceline
