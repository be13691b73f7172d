// The cache rules: what is fresh enough, what to fetch, what to re-apply (docs/SYNC.md).
#include "common/cache/freshness.h"

#include <catch2/catch.hpp>

#include "common/cache/own_updates.h"
#include "common/cache/snapshot.h"

namespace paceline::cache {
namespace {

const FreshnessRules kOnlyRequired{ApplyMode::kVersioned, std::nullopt};
const FreshnessRules kAlways{ApplyMode::kVersioned, 1};
const FreshnessRules kEagerAlways{ApplyMode::kEager, 1};

// Clock 8 under s = 3: at least version 5 is required; version 6 at revision 60 exists.
const ReadRequest kAtEight{Clock(8), Version(5), Version(6), Revision(60)};

ThreadCacheState thread_with(std::int64_t version, std::int64_t revision, std::int64_t taken_at) {
  return {Version(version), Revision(revision), Clock(taken_at)};
}
ProcessCacheState process_with(std::int64_t version, std::int64_t revision) {
  return {Version(version), Revision(revision)};
}

TEST_CASE("a_thread_cache_that_is_new_enough_is_used_and_nothing_is_sent") {
  const auto read = decide_read(kOnlyRequired, kAtEight, thread_with(5, 50, 2), process_with(6, 60));
  CHECK(read.source == ReadSource::kThreadCache);
}

TEST_CASE("a_thread_cache_older_than_required_is_refreshed_from_the_process_cache_if_that_will_do") {
  CHECK(decide_read(kOnlyRequired, kAtEight, thread_with(4, 40, 7), process_with(5, 50)).source ==
        ReadSource::kProcessCache);
  const auto read = decide_read(kOnlyRequired, kAtEight, thread_with(4, 40, 7), process_with(4, 45));
  CHECK(read.source == ReadSource::kServer);
  CHECK(read.min_version == Version(5));
}

TEST_CASE("nothing_held_yet_is_older_than_anything") {
  const ReadRequest first{Clock(0), Version(0), Version(0), Revision(0)};
  CHECK(decide_read(kOnlyRequired, first, {}, {}).source == ReadSource::kServer);
  CHECK(decide_read(kOnlyRequired, first, {}, process_with(0, 0)).source == ReadSource::kProcessCache);
}

TEST_CASE("an_aged_snapshot_makes_way_only_when_something_newer_is_known") {
  CHECK(decide_read(kAlways, kAtEight, thread_with(6, 60, 7), process_with(6, 60)).source ==
        ReadSource::kThreadCache);
  CHECK(decide_read(kAlways, kAtEight, thread_with(5, 50, 7), process_with(6, 60)).source ==
        ReadSource::kProcessCache);
  const auto read = decide_read(kAlways, kAtEight, thread_with(5, 50, 7), process_with(5, 55));
  CHECK(read.source == ReadSource::kServer);
  CHECK(read.min_version == Version(6));
}

TEST_CASE("refresh_clocks_counts_the_threads_own_clocks") {
  const FreshnessRules every_third{ApplyMode::kVersioned, 3};
  CHECK(decide_read(every_third, kAtEight, thread_with(5, 50, 6), {}).source == ReadSource::kThreadCache);
  CHECK(decide_read(every_third, kAtEight, thread_with(5, 50, 5), {}).source == ReadSource::kServer);
}

TEST_CASE("eager_compares_revisions_because_the_version_may_stand_still") {
  CHECK(decide_read(kEagerAlways, kAtEight, thread_with(6, 60, 7), {}).source == ReadSource::kThreadCache);
  CHECK(decide_read(kEagerAlways, kAtEight, thread_with(6, 59, 7), process_with(6, 60)).source ==
        ReadSource::kProcessCache);
  const auto read = decide_read(kEagerAlways, kAtEight, thread_with(6, 58, 7), process_with(6, 59));
  CHECK(read.source == ReadSource::kServer);
  CHECK(read.min_version == Version(5));  // the servers answer at once with the newest they have
}

TEST_CASE("a_pull_behind_the_push_counts_as_the_refresh") {
  // Version 6 came into being after the servers had answered with 5: it is not asked for a second time.
  ReadRequest request = kAtEight;
  request.with_push = PullWithPush::kInstalled;
  CHECK(decide_read(kAlways, request, thread_with(5, 50, 7), process_with(5, 50)).source ==
        ReadSource::kThreadCache);
  CHECK(decide_read(kEagerAlways, request, thread_with(5, 50, 7), process_with(5, 55)).source ==
        ReadSource::kProcessCache);
  // What is required is asked for all the same.
  CHECK(decide_read(kAlways, request, thread_with(4, 40, 7), process_with(4, 45)).source ==
        ReadSource::kServer);
  // Not answered yet: the read waits for it, asking for no more than is required, which it serves.
  request.with_push = PullWithPush::kPending;
  const auto read = decide_read(kAlways, request, thread_with(5, 50, 7), process_with(5, 50));
  CHECK(read.source == ReadSource::kServer);
  CHECK(read.min_version == Version(5));
}

TEST_CASE("a_prefetch_asks_only_for_what_the_next_clock_requires_and_exists") {
  // Clock 9 under s = 3 will require version 6.
  CHECK(prefetch(Clock(8), Threshold(3), Version(6), thread_with(5, 0, 7), process_with(5, 0)).send);
  CHECK_FALSE(prefetch(Clock(8), Threshold(3), Version(5), thread_with(5, 0, 7), process_with(5, 0)).send);
  CHECK_FALSE(prefetch(Clock(8), Threshold(3), Version(7), thread_with(5, 0, 7), process_with(6, 0)).send);
  CHECK_FALSE(
      prefetch(Clock(8), Threshold::infinite(), Version(7), thread_with(0, 0, 0), process_with(0, 0)).send);
}

TEST_CASE("under_bsp_the_next_version_is_asked_for_with_the_push") {
  const auto plan =
      pull_with_push(kOnlyRequired, Clock(4), Threshold(0), thread_with(4, 0, 4), process_with(4, 0));
  CHECK(plan.send);
  CHECK(plan.min_version == Version(5));
}

TEST_CASE("at_its_bound_a_worker_pulls_with_the_push_and_below_it_only_to_refresh") {
  const auto thread = thread_with(5, 50, 7);
  CHECK(pull_with_push(kOnlyRequired, Clock(8), Threshold(3), thread, process_with(5, 50)).min_version ==
        Version(6));
  CHECK(pull_with_push(kOnlyRequired, Clock(8), Threshold(3), thread, process_with(5, 50)).send);
  CHECK_FALSE(pull_with_push(kOnlyRequired, Clock(8), Threshold(9), thread, process_with(5, 50)).send);
  CHECK(pull_with_push(kAlways, Clock(8), Threshold(9), thread, process_with(5, 50)).send);
  const FreshnessRules every_third{ApplyMode::kVersioned, 3};
  CHECK_FALSE(pull_with_push(every_third, Clock(8), Threshold(9), thread, process_with(5, 50)).send);
}

TEST_CASE("under_eager_a_refresh_that_is_only_due_goes_ahead_of_the_push") {
  const auto thread = thread_with(5, 50, 7);
  const auto due = pull_with_push(kEagerAlways, Clock(8), Threshold::infinite(), thread, process_with(5, 50));
  CHECK(due.send);
  CHECK(due.before_push);
  CHECK(due.min_version == Version(0));  // whatever exists
  // With slack under a finite threshold, too; at the bound the next clock requires what does not exist yet.
  CHECK(pull_with_push(kEagerAlways, Clock(8), Threshold(4), thread, process_with(5, 50)).before_push);
  const auto required = pull_with_push(kEagerAlways, Clock(8), Threshold(3), thread, process_with(5, 50));
  CHECK(required.send);
  CHECK_FALSE(required.before_push);
  const FreshnessRules never{ApplyMode::kEager, std::nullopt};
  CHECK_FALSE(pull_with_push(never, Clock(8), Threshold(4), thread, process_with(5, 50)).before_push);
}

TEST_CASE("behind_the_push_a_refresh_that_is_only_due_waits_for_the_grant_no_more_than_ahead") {
  const FreshnessRules behind{ApplyMode::kEager, 1, false};
  const auto thread = thread_with(5, 50, 7);
  for (const bool ahead : {true, false}) {
    const auto plan =
        pull_with_push(ahead ? kEagerAlways : behind, Clock(8), Threshold(4), thread, process_with(5, 50));
    CHECK((plan.send && plan.answered_at_once));
    CHECK(plan.before_push == ahead);
    CHECK(plan.min_version == Version(5));
    // At the bound it comes with the grant, wherever others would go.
    const auto required =
        pull_with_push(ahead ? kEagerAlways : behind, Clock(8), Threshold(3), thread, process_with(5, 50));
    CHECK((required.send && !required.answered_at_once && !required.before_push));
  }
}

TEST_CASE("under_versioned_every_pull_goes_behind_the_push_which_may_complete_a_version") {
  for (const int s : {0, 3, 9}) {
    const auto plan =
        pull_with_push(kAlways, Clock(8), Threshold(s), thread_with(5, 50, 7), process_with(5, 50));
    CHECK(plan.send);
    CHECK_FALSE(plan.before_push);
    CHECK_FALSE(plan.answered_at_once);
  }
}

// exchange.hidden, s = 1: with the push of 8 what clock 10 requires is asked for; 9 has what 8 asked for.
TEST_CASE("where_an_exchange_is_hidden_a_pull_is_for_the_iteration_behind_the_next") {
  const FreshnessRules hidden{ApplyMode::kVersioned, 1, true, true};
  const auto plan =
      pull_with_push(hidden, Clock(8), Threshold(1), thread_with(7, 70, 8), process_with(8, 80));
  CHECK((plan.send && !plan.before_push && !plan.answered_at_once));
  CHECK(plan.min_version == Version(9));
  // A refresh that is due is for clock 11, as far as it does not wait for this very thread.
  const auto asked = [&](std::int64_t s, const FreshnessRules& rules) {
    return pull_with_push(rules, Clock(8), Threshold(s), thread_with(5, 50, 8), process_with(5, 50))
        .min_version;
  };
  CHECK(asked(2, hidden) == Version(9));
  CHECK(asked(3, hidden) == Version(8));
  CHECK(asked(3, {ApplyMode::kVersioned, std::nullopt, true, true}) == Version(7));  // for clock 10
  // Version 10 would wait for this very thread.
  CHECK(pull_with_push(hidden, Clock(8), Threshold(0), thread_with(8, 80, 8), {}).min_version == Version(9));
  const FreshnessRules eager{ApplyMode::kEager, 1, true, true};
  CHECK_FALSE(
      pull_with_push(eager, Clock(8), Threshold::infinite(), thread_with(7, 70, 8), {}).answered_at_once);
}

TEST_CASE("where_an_exchange_is_hidden_nothing_is_waited_for_but_what_is_required") {
  const FreshnessRules hidden{ApplyMode::kVersioned, 1, true, true};
  const ReadRequest request{Clock(9), Version(8), Version(9), Revision(90), PullWithPush::kPending};
  CHECK(decide_read(hidden, request, thread_with(8, 80, 8), process_with(8, 80)).source ==
        ReadSource::kThreadCache);
  CHECK(decide_read(hidden, request, thread_with(7, 70, 8), process_with(8, 80)).source ==
        ReadSource::kProcessCache);
  const auto read = decide_read(hidden, request, thread_with(7, 70, 8), process_with(7, 70));
  CHECK(read.source == ReadSource::kServer);
  CHECK(read.min_version == Version(8));
}

TEST_CASE("threads_share_a_pull_that_is_new_enough_and_cannot_depend_on_them") {
  CHECK(serves(Version(6), Version(5), Version(6)));
  CHECK_FALSE(serves(Version(4), Version(5), Version(6)));
  CHECK_FALSE(serves(Version(7), Version(1), Version(4)));  // 7 does not exist yet: it may be waiting for us
  CHECK(serves(Version(7), Version(7), Version(6)));        // but we need it just as much
}

SliceStamp slice(std::int64_t version, std::int64_t revision, std::vector<Clock> applied = {}) {
  return {Version(version), Revision(revision), std::move(applied)};
}

TEST_CASE("a_slice_is_never_replaced_by_an_older_one") {
  SnapshotStamp snapshot(2);
  CHECK(snapshot.version() == kNoVersion);
  CHECK(snapshot.install(ShardId(0), slice(3, 30)));
  CHECK_FALSE(snapshot.install(ShardId(0), slice(2, 20)));
  CHECK_FALSE(snapshot.install(ShardId(0), slice(3, 30)));
  CHECK(snapshot.install(ShardId(0), slice(3, 31)));
  CHECK(snapshot.install(ShardId(0), slice(4, 31)));  // the version moved without a gradient
}

TEST_CASE("the_version_of_a_snapshot_is_the_smallest_of_its_slices") {
  SnapshotStamp snapshot(2);
  CHECK(snapshot.install(ShardId(0), slice(3, 30)));
  CHECK(snapshot.version() == kNoVersion);
  CHECK(snapshot.install(ShardId(1), slice(2, 25)));
  CHECK(snapshot.version() == Version(2));
  CHECK(snapshot.revision() == Revision(25));
}

TEST_CASE("own_updates_are_added_again_exactly_where_they_are_not_contained") {
  SnapshotStamp snapshot(2);
  CHECK(snapshot.install(ShardId(0), slice(6, 60, {Clock(0), Clock(7)})));
  CHECK(snapshot.install(ShardId(1), slice(6, 58, {Clock(0), Clock(6)})));
  OwnUpdates own;
  for (const int stamp : {5, 6, 7}) own.remember(Clock(stamp));
  CHECK(own.drop_contained(snapshot, 1) == 1);  // 5 is in both
  CHECK(own.to_reapply(snapshot, ShardId(0), 1) == std::vector<std::size_t>{1});
  CHECK(own.to_reapply(snapshot, ShardId(1), 1) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("own_updates_are_kept_wherever_the_threshold_can_be_above_zero") {
  CHECK_FALSE(keeps_own_updates(Threshold(0)));
  CHECK(keeps_own_updates(Threshold(1)));
  CHECK(keeps_own_updates(Threshold::infinite()));
}

}  // namespace
}  // namespace paceline::cache
