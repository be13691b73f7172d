#include "common/log/stall_log.h"

#include <algorithm>
#include <cstdio>

namespace paceline {
namespace {

std::string tenths(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", to_seconds(time));
  return text;
}

std::string line_of(const Wait& wait, std::chrono::nanoseconds lasted) {
  return "for " + tenths(lasted) + ": " + wait.text;
}

std::chrono::nanoseconds patience(const Wait& wait) {
  if (wait.at_start) return StallLog::kAtStart;
  if (wait.usual.count() == 0) return StallLog::kUnknown;
  return std::max<std::chrono::nanoseconds>(StallLog::kAtLeast, StallLog::kTimesUsual * wait.usual);
}

}  // namespace

const StallLog::Seen* StallLog::find(const std::string& cause) const {
  const auto found =
      std::find_if(seen_.begin(), seen_.end(), [&](const Seen& s) { return s.cause == cause; });
  return found == seen_.end() ? nullptr : &*found;
}

std::vector<std::string> StallLog::check(const std::vector<Wait>& waits, Ticks now) {
  std::vector<std::string> lines;
  std::erase_if(seen_, [&](const Seen& seen) {
    const auto same = [&](const Wait& wait) { return wait.cause == seen.cause; };
    if (std::any_of(waits.begin(), waits.end(), same)) return false;
    if (seen.logged) lines.push_back("over after " + tenths(now - seen.since) + ": " + seen.cause);
    return true;
  });
  for (const Wait& wait : waits) {
    if (find(wait.cause) == nullptr) seen_.push_back({wait.cause, now, patience(wait), false});
  }
  standing_.clear();
  for (Seen& seen : seen_) {
    const Wait& wait =
        *std::find_if(waits.begin(), waits.end(), [&](const Wait& w) { return w.cause == seen.cause; });
    const auto lasted = now - seen.since;
    if (lasted >= seen.report_after) {
      lines.push_back(line_of(wait, lasted));
      seen.logged = true;
      while (seen.report_after <= lasted) seen.report_after *= wait.at_start ? kTimesAtStart : 2;
    }
    if (seen.logged && standing_.empty()) standing_ = line_of(wait, lasted);
  }
  return lines;
}

std::vector<std::string> StallLog::explain(const std::vector<Wait>& waits, Ticks now) const {
  std::vector<std::string> lines;
  for (const Wait& wait : waits) {
    const Seen* const seen = find(wait.cause);
    lines.push_back(line_of(wait, seen == nullptr ? std::chrono::nanoseconds::zero() : now - seen->since));
  }
  return lines;
}

void StallLog::discount_pause(const Pause& pause) {
  for (Seen& seen : seen_) seen.since = pause.discounted(seen.since);
}

}  // namespace paceline
