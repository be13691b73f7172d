#include "common/cache/freshness.h"

#include <algorithm>

namespace paceline::cache {

namespace {

// A snapshot that old has to make way when there is a newer one.
bool is_aged(const FreshnessRules& rules, Clock clock, const ThreadCacheState& thread) {
  return rules.refresh_clocks && clock - thread.taken_at >= Staleness(*rules.refresh_clocks);
}

template <typename Snapshot>
bool is_newest_known(const FreshnessRules& rules, const ReadRequest& request, const Snapshot& snapshot) {
  if (rules.apply == ApplyMode::kVersioned) return snapshot.version >= request.version;
  return snapshot.revision >= request.revision;
}

bool is_newer(const FreshnessRules& rules, const ProcessCacheState& process, const ThreadCacheState& thread) {
  if (rules.apply == ApplyMode::kVersioned) return process.version > thread.version;
  return process.revision > thread.revision;
}

}  // namespace

ReadDecision decide_read(const FreshnessRules& rules, const ReadRequest& request,
                         const ThreadCacheState& thread, const ProcessCacheState& process) {
  const auto meets = [&](Version held) { return held > kNoVersion && held >= request.min_version; };
  const bool required = !meets(thread.version);
  const bool aged = is_aged(rules, request.clock, thread);
  if (!required && rules.hidden) {
    const bool refreshes = aged && is_newer(rules, process, thread);
    return {refreshes ? ReadSource::kProcessCache : ReadSource::kThreadCache, {}};
  }
  const bool due = aged && !rules.hidden && !is_newest_known(rules, request, thread);
  if (!required && !due) return {ReadSource::kThreadCache, {}};

  const bool asked = request.with_push != PullWithPush::kNone;
  const bool answered = request.with_push == PullWithPush::kInstalled && is_newer(rules, process, thread);
  const bool process_serves =
      meets(process.version) && (!due || is_newest_known(rules, request, process) || answered);
  if (process_serves) return {ReadSource::kProcessCache, {}};
  if (!required && request.with_push == PullWithPush::kInstalled) return {ReadSource::kThreadCache, {}};
  // Eager: no version says what the newest revision is; the servers answer with the newest they have.
  const bool newest_version = due && !asked && rules.apply == ApplyMode::kVersioned;
  return {ReadSource::kServer,
          newest_version ? std::max(request.version, request.min_version) : request.min_version};
}

PullPlan prefetch(Clock clock, Threshold s, Version version, const ThreadCacheState& thread,
                  const ProcessCacheState& process) {
  const Version next_required = s.oldest_version(clock.next());
  const bool lacking = std::max(thread.version, process.version) < next_required;
  return {lacking && next_required <= version, next_required};
}

PullWithPushPlan pull_with_push(const FreshnessRules& rules, Clock clock, Threshold s,
                                const ThreadCacheState& thread, const ProcessCacheState& process) {
  const bool hidden = rules.hidden && s > Threshold(0);
  const Version next_required = s.oldest_version(hidden ? clock.next().next() : clock.next());
  const bool lacking = std::max(thread.version, process.version) < next_required;
  const bool due = is_aged(rules, clock.next(), thread);
  if (hidden) {
    const bool versioned = rules.apply == ApplyMode::kVersioned;
    const Version newest(clock.next().value);  // that does not wait for this thread
    const Version later = std::min(newest, s.oldest_version(clock.next().next().next()));
    return {lacking || due, due && versioned ? std::max(later, next_required) : next_required, false, false};
  }
  const bool answered_at_once = due && !lacking && rules.apply == ApplyMode::kEager && !rules.hidden;
  return {lacking || due, next_required, answered_at_once, answered_at_once && rules.pulls_before_push};
}

bool serves(Version outstanding, Version needed, Version newest_known) {
  return outstanding >= needed && outstanding <= std::max(needed, newest_known);
}

}  // namespace paceline::cache
