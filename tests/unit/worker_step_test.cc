// The order of a worker's step, as events and actions in text: what follows from what.
#include "common/step/worker_step.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

namespace paceline::step {
namespace {

std::string text(const AwaitParameters& a) {
  return "await " + to_string(a.min_version) + (a.pulled_with_push ? " with push" : "");
}
std::string text(const MakeCurrent& a) {
  return std::string(a.refresh ? "refresh" : "stay") + (a.first ? " first" : "") +
         (a.parameters ? " waited " + std::to_string(a.parameters->count()) : "");
}
std::string text(const Pull& a) {
  const char* const when = a.when == PullWhen::kPrefetch     ? "prefetch "
                           : a.when == PullWhen::kBeforePush ? "pull before "
                                                             : "pull after ";
  return when + to_string(a.min_version) + (a.installs_early ? " early" : "") +
         (a.fragment > 0 ? " fragment " + std::to_string(a.fragment) : "");
}
std::string numbered(const std::string& what, std::int64_t local_step) {
  return local_step == 0 ? what : what + " " + std::to_string(local_step);
}
std::string text(const LoadBatch& a) { return numbered("load", a.local_step); }
std::string text(const Compute& a) { return numbered("compute", a.local_step); }
std::string text(const SendFragment& a) { return "fragment " + std::to_string(a.n); }
std::string text(const CheckGradient&) { return "check"; }
std::string text(const ApplyLocally&) { return "apply"; }
std::string text(const Contribute&) { return "contribute"; }
std::string text(const Withdraw&) { return "withdraw"; }
std::string text(const Report& a) { return a.skipped ? "report skipped" : "report"; }
std::string text(const InstallEarly&) { return "install early"; }
std::string text(const AwaitInstruction&) { return "await instruction"; }

// A worker and what it sees of its caches; times are in nanoseconds.
struct Worker {
  WorkerStep step;
  View now;

  explicit Worker(const StepRules& rules) : step(rules) {}

  // What follows, one after another.
  std::string on(const Event& event) {
    std::vector<Action> actions;
    const Status received = step.step(event, actions);
    if (!received.is_ok()) return received.message();
    std::string all;
    for (const Action& action : actions) {
      all += (all.empty() ? "" : ", ") + std::visit([](const auto& a) { return text(a); }, action);
    }
    return all;
  }
  std::string granted(std::int64_t clock, Threshold s, std::int64_t newest, std::int64_t arrived = 0,
                      ApplyMode apply = ApplyMode::kVersioned, std::int64_t iteration = 0) {
    now.newest_known = {Version(newest), Revision(newest)};
    Grant grant;
    grant.clock = Clock(clock);
    grant.threshold = s;
    grant.min_version = s.oldest_version(grant.clock);
    grant.apply = apply;
    grant.batch = {0, 24};
    grant.iteration = iteration;
    return on(Granted{grant, Ticks(arrived), now});
  }
  // Both caches hold this version, taken over at that clock.
  void holds(std::int64_t version, std::int64_t taken_at) {
    now.process = {Version(version), Revision(version)};
    now.thread = {Version(version), Revision(version), Clock(taken_at)};
  }
  // From current parameters to a gradient that is being computed; what else that leads to.
  std::string computes() {
    CHECK(on(ParametersCurrent{}) == "load");
    return on(BatchLoaded{now});
  }
};

constexpr Threshold kBsp{0};
constexpr Threshold kThree{3};
constexpr Threshold kNone = Threshold::infinite();

TEST_CASE("a_round_under_bsp_is_read_compute_contribute_report_and_the_next_version_pulled_behind") {
  Worker w({.refresh_clocks = 1});
  CHECK(w.granted(0, kBsp, 0, 100) == "await 0");
  w.holds(0, 0);
  CHECK(w.on(Arrived{Ticks(130), Ticks(140)}) == "refresh first waited 40");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == "pull after 1, await instruction");
  // The servers hold the answer as long as the grant, and both come down together.
  CHECK(w.granted(1, kBsp, 1, 200) == "await 1 with push");
  w.holds(1, 1);
  CHECK(w.on(Arrived{Ticks(190), Ticks(210)}) == "refresh waited -10");
  CHECK((w.step.reads() == 2 && w.step.server_reads() == 2 && w.step.contributed() == 1));
}

TEST_CASE("with_local_steps_mini_batches_follow_one_another_and_one_delta_leaves_behind_the_last") {
  Worker w({.refresh_clocks = 1, .applies_locally = true, .mini_batch = 8});
  w.holds(0, 0);
  CHECK(w.granted(0, kThree, 0) == "stay first");
  CHECK(w.computes() == "compute");
  for (const char* const next : {"1", "2"}) {
    CHECK(w.on(GradientComputed{w.now}) == std::string("load ") + next);
    CHECK(w.on(BatchLoaded{w.now}) == std::string("compute ") + next);
  }
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{}) == "apply");
  CHECK(w.on(AppliedLocally{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == "pull after 0, await instruction");  // a refresh is due
  CHECK(w.granted(1, kThree, 0) == "stay");
  CHECK(w.computes() == "compute");  // the next round begins with its first
  CHECK((w.step.contributed() == 1 && w.step.reads() == 2));
}

TEST_CASE(
    "fragments_leave_behind_their_places_in_the_round_and_of_a_last_round_nothing_leaves_before_its_end") {
  Worker w({.refresh_clocks = 1,
            .applies_locally = true,
            .mini_batch = 8,
            .hidden = true,
            .fragments = 2,
            .whole_from = 1});
  w.holds(0, 0);
  CHECK(w.granted(0, kThree, 0) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "fragment 0, load 1");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 1");
  CHECK(w.on(GradientComputed{w.now}) == "load 2");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 2");
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{}) == "apply");
  CHECK(w.on(AppliedLocally{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == "pull after 0, await instruction");  // the first fragment
  CHECK(w.granted(1, kThree, 0, 0, ApplyMode::kVersioned, 1) == "stay");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "pull after 0 fragment 1, load 1");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 1");
  CHECK(w.on(GradientComputed{w.now}) == "load 2");
  // Under a threshold of 0 the next round begins with all that it needs.
  Worker tight(
      {.refresh_clocks = 1, .applies_locally = true, .mini_batch = 24, .hidden = true, .fragments = 2});
  tight.holds(0, 0);
  CHECK(tight.granted(0, kBsp, 0) == "stay first");
  CHECK(tight.computes() == "compute");
  CHECK(tight.on(GradientComputed{tight.now}) == "check");
  CHECK(tight.on(GradientChecked{}) == "apply");
  CHECK(tight.on(AppliedLocally{}) == "contribute, report");
  CHECK(tight.on(Sent{tight.now}) == "pull after 1, pull after 1 fragment 1, await instruction");
  CHECK((fragment_pull_place(0, 3, 10) == 0 && fragment_pull_place(2, 3, 10) == 5));
  // As many steps as there are, or fewer: each has a place, and several may have the same.
  CHECK((fragment_place(0, 3, 10) == 3 && fragment_place(1, 3, 10) == 6 && fragment_place(2, 3, 10) == 10));
  CHECK((fragment_place(0, 3, 2) == 0 && fragment_place(1, 3, 2) == 1 && fragment_place(2, 3, 2) == 2));
}

TEST_CASE("a_round_whose_time_is_up_ends_behind_the_mini_batch_that_it_is_in") {
  Worker w({.refresh_clocks = 1, .applies_locally = true, .mini_batch = 8});
  w.holds(0, 0);
  CHECK(w.granted(0, kThree, 0) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "load 1");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 1");
  CHECK(w.on(GradientComputed{w.now, true, true}) == "check");
  CHECK(w.on(GradientChecked{}) == "apply");
  CHECK(w.on(AppliedLocally{}) == "contribute, report");
  using std::chrono::milliseconds;
  CHECK_FALSE(time_is_up(std::nullopt, milliseconds(1000), milliseconds(1000)));
  CHECK_FALSE(time_is_up(milliseconds(90), milliseconds(60), milliseconds(30)));
  CHECK(time_is_up(milliseconds(89), milliseconds(60), milliseconds(30)));
}

TEST_CASE("a_round_of_more_or_fewer_steps_is_spread_over_as_many_places_as_the_others") {
  const BatchPart round{96, 24};
  CHECK((local_steps_of(round, 0) == 1 && local_steps_of(round, 8) == 3));
  CHECK((local_batch(round, 0, 0) == round && local_batch(round, 8, 2) == BatchPart{112, 8}));
  const auto places = [](std::int64_t steps) {
    std::vector<std::int64_t> all;
    for (std::int64_t n = 0; n < steps; ++n) all.push_back(local_place(30, 3, n, steps));
    return all;
  };
  CHECK(places(3) == std::vector<std::int64_t>{30, 31, 32});
  CHECK(places(5) == std::vector<std::int64_t>{30, 30, 31, 31, 32});
  CHECK(places(2) == std::vector<std::int64_t>{30, 31});
}

TEST_CASE("a_local_step_whose_loss_is_not_finite_ends_its_round") {
  Worker w({.mini_batch = 8});
  w.holds(0, 0);
  CHECK(w.granted(0, kThree, 0) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "load 1");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 1");
  CHECK(w.on(GradientComputed{w.now, false}) == "check");
  CHECK(w.on(GradientChecked{false}) == "withdraw, report skipped");
  CHECK(w.on(Sent{w.now}) == "await instruction");
}

TEST_CASE("what_the_next_round_needs_is_fetched_once_in_the_shadow_of_the_first_local_step") {
  Worker w({.mini_batch = 12});
  w.holds(0, 0);
  CHECK(w.granted(3, kThree, 1) == "stay first");
  CHECK(w.computes() == "prefetch 1, compute");
  CHECK(w.on(GradientComputed{w.now}) == "load 1");
  CHECK(w.on(BatchLoaded{w.now}) == "compute 1");
}

TEST_CASE("a_gradient_that_is_not_finite_is_withdrawn_not_applied_and_its_clock_closes") {
  Worker w({.applies_locally = true});
  w.holds(0, 0);
  CHECK(w.granted(0, kThree, 0) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{false}) == "withdraw, report skipped");
  CHECK(w.on(Sent{w.now}) == "await instruction");
  CHECK((w.step.contributed() == 0 && w.step.skipped() == 1));
}

TEST_CASE("what_the_next_round_is_certain_to_require_is_fetched_while_the_gradient_is_computed") {
  Worker w({});
  w.holds(0, 0);
  CHECK(w.granted(3, kThree, 1) == "stay first");
  CHECK(w.computes() == "prefetch 1, compute");
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == "pull after 1, await instruction");  // it has not come
  w.now.process = {Version(1), Revision(1)};
  w.now.pull_installed = true;
  CHECK(w.granted(4, kThree, 1) == "refresh");
  CHECK(w.step.server_reads() == 0);
}

TEST_CASE(
    "under_eager_a_due_refresh_leaves_ahead_of_the_push_or_behind_it_and_is_installed_before_the_grant") {
  const bool ahead = GENERATE(true, false);
  Worker w({.refresh_clocks = 1, .pulls_before_push = ahead, .applies_locally = true});
  w.holds(0, 0);
  CHECK(w.granted(0, kNone, 0, 0, ApplyMode::kEager) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == (ahead ? "pull before 0 early, check" : "check"));
  CHECK(w.on(GradientChecked{}) == "apply");
  CHECK(w.on(AppliedLocally{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == (ahead ? "install early, await instruction"
                                    : "pull after 0 early, install early, await instruction"));
  w.now.pull_installed = true;
  w.now.process = {Version(0), Revision(4)};
  SECTION("the parameters are first") {
    CHECK(w.on(InstalledEarly{Ticks(10), Ticks(20), true, w.now}).empty());
    CHECK(w.granted(1, kNone, 4, 30, ApplyMode::kEager) == "refresh");
    CHECK(w.step.server_reads() == 0);
    CHECK_FALSE(w.step.installed_after_grant());
  }
  SECTION("the grant is first, and is looked at when they are installed") {
    CHECK(w.granted(1, kNone, 4, 5, ApplyMode::kEager).empty());
    CHECK(w.on(InstalledEarly{Ticks(10), Ticks(20), true, w.now}) == "refresh waited 15");
    CHECK(w.step.server_reads() == 1);
    CHECK(w.step.installed_after_grant());
  }
  SECTION("nothing of them was new: the thread goes on with what it has") {
    w.now.process = {Version(0), Revision(0)};
    CHECK(w.on(InstalledEarly{Ticks(10), Ticks(20), false, w.now}).empty());
    CHECK(w.granted(1, kNone, 4, 30, ApplyMode::kEager) == "stay");
  }
  SECTION("nothing follows, and nobody waits for them") { CHECK(w.on(Finished{}).empty()); }
}

TEST_CASE("a_pull_that_went_with_the_push_is_not_waited_for_where_it_will_not_do") {
  Worker w({.refresh_clocks = 1});
  w.holds(0, 0);
  CHECK(w.granted(0, Threshold(1), 0) == "stay first");
  CHECK(w.computes() == "compute");
  CHECK(w.on(GradientComputed{w.now}) == "check");
  CHECK(w.on(GradientChecked{}) == "contribute, report");
  CHECK(w.on(Sent{w.now}) == "pull after 0, await instruction");  // clock 1 may compute with version 0
  // The threshold has fallen: version 1 is required, which that pull does not ask for.
  CHECK(w.granted(1, kBsp, 1) == "await 1");
}

TEST_CASE("a_grant_that_does_not_move_the_clock_on_is_an_error_and_changes_nothing") {
  Worker w({});
  w.holds(3, 3);
  CHECK(w.granted(3, kThree, 3) == "stay first");
  w.computes();
  w.on(GradientComputed{w.now});
  w.on(GradientChecked{});
  w.on(Sent{w.now});
  CHECK(w.granted(3, kThree, 3) == "worker 0.0: granted clock 3, expected one above 3");
  CHECK(w.granted(4, kThree, 3) == "stay");
}

}  // namespace
}  // namespace paceline::step
