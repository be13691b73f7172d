// The simulator's parts, each by itself: time, distributions, a node's weather, the links, the metric.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "simulate/applied_clocks.h"
#include "simulate/compute_times.h"
#include "simulate/event_queue.h"
#include "simulate/local_updates.h"
#include "simulate/message_sizes.h"
#include "simulate/metric_model.h"
#include "simulate/network.h"
#include "simulate/node_speed.h"
#include "simulate/virtual_time.h"
#include "tests/unit/simulate_fixture.h"

namespace paceline::simulate {
namespace {

TEST_CASE("events_come_by_time_and_then_in_the_order_in_which_they_were_scheduled") {
  EventQueue<int> queue;
  CounterRandom random(1, Stream::kTest);
  std::vector<std::pair<std::int64_t, int>> expected;
  for (int i = 0; i < 1000; ++i) {
    const auto when = static_cast<std::int64_t>(random.next_below(50));
    queue.at(Ticks(when), i);
    expected.emplace_back(when, i);
  }
  std::stable_sort(expected.begin(), expected.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [when, event] : expected) {
    REQUIRE(queue.next() == event);
    REQUIRE(queue.now() == Ticks(when));
  }
  CHECK(queue.empty());
}

// Mean 1 and the given coefficient of variation, within four standard errors of 200,000 draws.
void check_moments(const std::function<double(CounterRandom&)>& draw, double cv, double tolerance) {
  constexpr int kDraws = 200'000;
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    CounterRandom random(3, Stream::kTest, static_cast<std::uint64_t>(i));
    const double x = draw(random);
    REQUIRE(x > 0.0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(1.0).margin(4.0 * cv / std::sqrt(kDraws) + 1e-3));
  CHECK(std::sqrt(squares / kDraws - mean * mean) == Approx(cv).epsilon(tolerance));
}

TEST_CASE("draws_have_mean_1_and_the_coefficient_of_variation_that_was_asked_for") {
  check_moments([](CounterRandom& r) { return normal_draw(0.3, r); }, 0.3, 0.01);
  check_moments([](CounterRandom& r) { return lognormal_draw(0.3, r); }, 0.3, 0.02);
  check_moments([](CounterRandom& r) { return gamma_draw(0.5, r); }, 0.5, 0.02);
  check_moments([](CounterRandom& r) { return gamma_draw(2.0, r); }, 2.0, 0.05);
  // cv of a Pareto distribution: 1 / sqrt(a (a - 2)).
  check_moments([](CounterRandom& r) { return pareto_draw(5.0, r); }, 1.0 / std::sqrt(15.0), 0.05);
}

TEST_CASE("a_computation_s_length_follows_from_seed_worker_and_clock_alone") {
  const std::vector<std::string> lognormal{"simulate.compute.distribution=lognormal"};
  const auto a = make_compute_times(test::plain_config(lognormal));
  std::vector<std::string> asp = lognormal;
  asp.insert(asp.end(), {"sync.policy=asp", "train.total_iterations=40"});
  const auto b = make_compute_times(test::plain_config(asp));
  for (std::int64_t c = 20; c-- > 0;) CHECK(a->length(Rank(1), Clock(c)) == b->length(Rank(1), Clock(c)));
  CHECK(a->length(Rank(0), Clock(3)) != a->length(Rank(1), Clock(3)));
  asp.push_back("run.seed=8");
  CHECK(a->length(Rank(0), Clock(3)) !=
        make_compute_times(test::plain_config(asp))->length(Rank(0), Clock(3)));
}

TEST_CASE("a_slow_node_is_slow_for_its_share_of_the_time_and_all_its_workers_meet_the_same_periods") {
  SimulatedCompute compute;
  compute.slow_share = 0.25;
  compute.slow_length = std::chrono::seconds(10);
  compute.slow_factor = 3.0;
  constexpr auto kWork = std::chrono::seconds(100'000);
  // 1 of 4 instants gives a third of the work: 0.75 + 0.25 / 3 of it for each second.
  const double expected = 1e5 / (0.75 + 0.25 / 3.0);
  NodeSpeed first(compute, 1, NodeId(2)), second(compute, 1, NodeId(2));
  const double took = to_seconds(first.done(Ticks(0), kWork) - Ticks(0));
  CHECK(took == Approx(expected).epsilon(0.03));
  // Cut into steps of 0.1 s, the same work takes the same time, but for rounding.
  Ticks now(0);
  for (int i = 0; i < 1'000'000; ++i) now = second.done(now, std::chrono::milliseconds(100));
  CHECK(to_seconds(now - Ticks(0)) == Approx(took).epsilon(1e-6));
  CHECK(NodeSpeed(compute, 1, NodeId(3)).done(Ticks(0), kWork) != first.done(Ticks(0), kWork));
}

TEST_CASE("nothing_is_computed_in_a_pause") {
  SimulatedCompute compute;
  compute.pause_every = std::chrono::seconds(9);
  compute.pause_length = std::chrono::seconds(1);
  NodeSpeed speed(compute, 5, NodeId(0));
  const double took = to_seconds(speed.done(Ticks(0), std::chrono::seconds(90'000)) - Ticks(0));
  CHECK(took == Approx(100'000).epsilon(0.02));
}

// Runs a network until it is silent; when each of its transfers, told apart by `a`, has arrived.
std::vector<std::int64_t> arrivals(Events& events, Network& network, std::size_t transfers) {
  std::vector<std::int64_t> when(transfers, -1);
  while (!events.empty()) {
    const Event e = events.next();
    if (e.kind == EventKind::kFlowEnters) {
      network.flow_enters(e.a, events.now());
    } else if (e.kind == EventKind::kLinkIsThrough) {
      network.link_is_through(e.a, events.now());
    } else {
      when[e.a] = events.now().ns;
    }
  }
  return when;
}

Event arrives(std::uint32_t transfer) { return {EventKind::kPushArrives, transfer, 0}; }

SimulatedNetwork links(std::optional<std::int64_t> node, std::optional<std::int64_t> server,
                       Duration latency) {
  SimulatedNetwork network;
  network.bandwidth = {node};
  network.server_bandwidth = server;
  network.latency = latency;
  return network;
}

TEST_CASE("virtual_time_ends_and_no_length_goes_past_its_end") {
  CHECK(after(Ticks(5), Duration(3)) == Ticks(8));
  CHECK(after(kEndOfTime, kCentury) == kEndOfTime);
  CHECK(length_of(2.5e300) == kCentury);
  CHECK(length_of(1.4) == Duration(1));
  EventQueue<int> queue;
  queue.at(Ticks(INT64_MAX), 1);
  queue.at(Ticks(5), 2);
  CHECK(queue.next() == 2);
  CHECK(queue.next() == 1);
  CHECK(queue.now() == kEndOfTime);
  SimulatedCompute compute;
  compute.pause_every = std::chrono::microseconds(1);
  compute.pause_length = std::chrono::hours(1000);
  CHECK(NodeSpeed(compute, 5, NodeId(0)).done(Ticks(0), std::chrono::seconds(1)) == kEndOfTime);
  Events events;
  Network network(links(1024, {}, Duration(0)), 1, 1, events);
  for (std::uint32_t i = 0; i < 4; ++i) {  // 97 years each
    network.to_server(NodeId(0), ShardId(0), 3'134'000'000'000, arrives(i), Ticks(0));
  }
  const auto when = arrivals(events, network, 4);
  CHECK(Ticks(when[0]) < kEndOfTime);
  CHECK(Ticks(when[3]) == kEndOfTime);
}

TEST_CASE("a_server_s_link_is_shared_equally_by_the_transfers_on_it") {
  Events events;
  Network network(links({}, 1'000'000'000, Duration(5)), 2, 1, events);  // a byte each nanosecond
  network.to_server(NodeId(0), ShardId(0), 100, arrives(0), Ticks(0));
  events.at(Ticks(50), {EventKind::kStop, 0, 0});
  REQUIRE(events.next().kind == EventKind::kStop);
  network.to_server(NodeId(1), ShardId(0), 100, arrives(1), Ticks(50));
  // 50 bytes alone, 50 more at half the speed: through at 150; the other then has 50 left, alone.
  CHECK(arrivals(events, network, 2) == std::vector<std::int64_t>{155, 205});
}

TEST_CASE("k_transfers_through_one_link_take_as_long_as_their_bytes_whatever_their_sizes") {
  Events events;
  Network network(links({}, 1'000'000'000, Duration(0)), 10, 1, events);
  std::int64_t bytes = 0;
  for (std::uint32_t n = 0; n < 10; ++n) {
    network.to_server(NodeId(n), ShardId(0), 1000 + 100 * n, arrives(n), Ticks(0));
    bytes += 1000 + 100 * n;
  }
  const auto when = arrivals(events, network, 10);
  CHECK(*std::max_element(when.begin(), when.end()) == bytes);
  CHECK(when.front() == 10'000);  // a tenth of the link each
}

TEST_CASE("a_node_s_link_carries_one_transfer_after_another_and_each_direction_has_its_own") {
  Events events;
  Network network(links(500'000'000, {}, Duration(7)), 1, 2, events);  // 2 ns a byte
  network.to_server(NodeId(0), ShardId(0), 100, arrives(0), Ticks(0));
  network.to_server(NodeId(0), ShardId(1), 100, arrives(1), Ticks(0));
  network.to_node(ShardId(0), NodeId(0), 100, arrives(2), Ticks(0));
  CHECK(arrivals(events, network, 3) == std::vector<std::int64_t>{207, 407, 207});
}

TEST_CASE("each_node_s_link_may_have_a_bandwidth_of_its_own") {
  SimulatedNetwork settings = links({}, {}, Duration(0));
  settings.bandwidth = {500'000'000, std::nullopt, 250'000'000};  // 2 ns a byte, at once, 4 ns a byte
  Events events;
  Network network(settings, 3, 1, events);
  for (std::uint32_t n = 0; n < 3; ++n) {
    network.to_server(NodeId(n), ShardId(0), 100, arrives(2 * n), Ticks(0));
    network.to_node(ShardId(0), NodeId(n), 50, arrives(2 * n + 1), Ticks(0));
  }
  CHECK(arrivals(events, network, 6) == std::vector<std::int64_t>{200, 100, 0, 0, 400, 200});
}

TEST_CASE("the_slower_of_the_two_links_decides_when_a_transfer_arrives") {
  Events events;
  Network slow_node(links(100'000'000, 1'000'000'000, Duration(0)), 1, 1, events);
  slow_node.to_server(NodeId(0), ShardId(0), 100, arrives(0), Ticks(0));
  CHECK(arrivals(events, slow_node, 1)[0] == 1000);
  Events later;
  Network slow_server(links(1'000'000'000, 100'000'000, Duration(0)), 1, 1, later);
  slow_server.to_server(NodeId(0), ShardId(0), 100, arrives(0), Ticks(0));
  CHECK(arrivals(later, slow_server, 1)[0] == 1000);
}

TEST_CASE("messages_are_as_many_and_as_large_as_the_layout_s_frames") {
  ClusterSection cluster;
  cluster.shards = 1;
  const ShardSizes whole = message_sizes(cluster, 545'098)[0];  // cifar_cnn_small
  CHECK(whole.parameters.messages == 5);
  CHECK(whole.gradient.messages == 6);  // the lowest frame is cut at its tail
  CHECK(whole.gradient.bytes == 545'098 * 4 + 6 * kPushHeaderBytes);
  cluster.gradient_encoding = Encoding::kFp16;
  CHECK(message_sizes(cluster, 545'098)[0].gradient.bytes == 545'098 * 2 + 6 * kPushHeaderBytes);
  cluster.shards = 2;
  CHECK(message_sizes(cluster, 545'099)[1].floats == 272'549);
}

TEST_CASE("an_older_state_contains_what_was_applied_up_to_its_revision") {
  AppliedClocks applied(ApplyMode::kEager, 2, 9);
  applied.note(Rank(1), Clock(0), Revision(20));
  applied.note(Rank(1), Clock(1), Revision(31));
  applied.note(Rank(1), Clock(2), Revision(44));
  CHECK(applied.at(Rank(1), Version(0), Revision(50)) == Clock(3));
  CHECK(applied.at(Rank(1), Version(0), Revision(40)) == Clock(2));
  CHECK(applied.at(Rank(1), Version(0), Revision(25)) == Clock(1));
  CHECK(applied.at(Rank(1), Version(0), Revision(19)) == Clock(0));
  CHECK(applied.at(Rank(0), Version(0), Revision(50)) == Clock(0));
  CHECK(AppliedClocks(ApplyMode::kVersioned, 2, 9).at(Rank(0), Version(4), Revision(50)) == Clock(4));
}

TEST_CASE("a_gradient_is_applied_where_it_waits_and_three_that_are_kept_are_one_too_many") {
  const std::vector<ShardSizes> shards{{100, {}, {}}, {10, {}, {}}};
  LocalUpdates own(false);
  CHECK_FALSE(own.apply_deferred(shards));
  own.computed(Clock(0), 2);
  CHECK(own.apply_deferred(shards) == 110);  // applied in both slices, which stay
  CHECK_FALSE(own.apply_deferred(shards));
  own.computed(Clock(1), 2);
  CHECK(own.apply_deferred(shards) == 110);
  own.computed(Clock(2), 2);
  CHECK(own.apply_deferred(shards) == 220);  // and that of clock 0 becomes a difference
  own.computed(Clock(3), 2);
  // Slice 1 is taken over, and lacks all four; in slice 0 the newest still waits.
  cache::SnapshotStamp here(2);
  CHECK(own.take_over(ShardId(1), Clock(0)) == 4);
  own.refreshed(here, 0);
  CHECK(own.apply_deferred(shards) == 100 + 110);
  // Everything is in both: nothing is kept, nothing is left.
  own.computed(Clock(4), 2);
  const cache::SliceStamp newest{Version(5), Revision(9), {Clock(5)}};
  for (const ShardId shard : {ShardId(0), ShardId(1)}) {
    REQUIRE(here.install(shard, newest));
    own.take_over(shard, Clock(5));
  }
  own.refreshed(here, 0);
  CHECK_FALSE(own.apply_deferred(shards));
  own.computed(Clock(5), 2);
  CHECK(own.apply_deferred(shards) == 110);
}

TEST_CASE("binomial_draws_have_the_mean_and_the_variance_of_theirs") {
  for (const double p : {0.0, 0.02, 0.5, 0.9, 1.0}) {
    for (const std::int64_t trials : {1, 128, 1000}) {
      constexpr int kDraws = 20'000;
      double sum = 0.0, squares = 0.0;
      for (int i = 0; i < kDraws; ++i) {
        CounterRandom random(9, Stream::kTest, static_cast<std::uint64_t>(i));
        const std::int64_t k = binomial_draw(trials, p, random);
        REQUIRE((k >= 0 && k <= trials));
        sum += static_cast<double>(k);
        squares += static_cast<double>(k * k);
      }
      const double n = static_cast<double>(trials), mean = sum / kDraws, variance = n * p * (1 - p);
      CHECK(mean == Approx(n * p).margin(4 * std::sqrt(variance / kDraws)));
      CHECK(squares / kDraws - mean * mean == Approx(variance).epsilon(0.06).margin(1e-9));
    }
  }
}

TEST_CASE("the_parametric_metric_is_half_way_after_half_samples") {
  const auto model = make_metric_model(
      test::plain_config({"simulate.metric.final_accuracy=0.9", "simulate.metric.half_samples=1000",
                          "simulate.metric.noise=none", "train.batch_size=1000"}));
  REQUIRE(model);
  CHECK((*model)->measure(Rank(0), Clock(0), 0, 1000).correct == 100);
  CHECK((*model)->measure(Rank(0), Clock(0), 1000, 1000).correct == 500);
  CHECK((*model)->measure(Rank(0), Clock(0), 3000, 1000).correct == 700);
  CHECK((*model)->measure(Rank(0), Clock(0), 1000, 1000).loss_sum == Approx(1400.0));
}

}  // namespace
}  // namespace paceline::simulate
