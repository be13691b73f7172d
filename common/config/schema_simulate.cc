// Rows of `simulate`: what `paceline simulate` assumes of the cluster (docs/SIMULATOR.md). The daemons do not
// read them.
#include "common/config/schema.h"

namespace paceline::config {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

Domain<std::optional<std::int64_t>> bytes_per_second() {
  return or_null(bytes(1024, std::int64_t{1} << 50, 1));
}

void add_compute(std::vector<Key>& keys) {
  keys.push_back(
      row(PACELINE_FIELD(simulate.compute.distribution), choice<ComputeKind>(), Scope::kOneDaemon,
          {.effect = "How the length of a computation is drawn; emulated: base_step, slowdown and jitter of "
                     "`emulate`, the very draws of a real run with the same seed.",
           .trade_off = "pareto has the heaviest tail, which hurts bsp most."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.mean), or_null(duration(nanoseconds(1), hours(1))),
                     Scope::kOneDaemon,
                     {.effect = "Mean computation of a node with slowdown 1; null: emulate.base_step.",
                      .trade_off = "Long beside the network hides what a policy sends."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.cv), real({.low = 0, .high = 10}), Scope::kOneDaemon,
                     {.unit = "standard deviation / mean",
                      .effect = "normal, lognormal, gamma: how much computations vary.",
                      .trade_off = "normal: at most 0.3, draws below 0 are drawn again."}));
  keys.push_back(
      row(PACELINE_FIELD(simulate.compute.shape), real({.low = 1, .high = 1000, .open_low = true}),
          Scope::kOneDaemon,
          {.unit = "exponent of the tail",
           .effect = "pareto: P(longer than x) falls as x to the power of minus this.",
           .trade_off = "Near 1 nearly all time lies in few computations; at 1 there is no mean."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.slowdown),
                     list_of(real({.low = 0, .high = 1000, .open_low = true})), Scope::kOneDaemon,
                     {.unit = "factor per node",
                      .effect = "How much slower each node is; one value serves all, []: emulate.slowdown.",
                      .trade_off = "The spread decides what a policy can gain."}));
  keys.push_back(
      row(PACELINE_FIELD(simulate.compute.slow_share), real({.low = 0, .high = 1, .open_high = true}),
          Scope::kOneDaemon,
          {.unit = "share of the time",
           .effect = "A node is slow for this share of the time, all its workers together; 0: never.",
           .trade_off = "Correlated slowness is what bounded staleness rides out worst."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.slow_length), duration(nanoseconds(1000), hours(1000)),
                     Scope::kOneDaemon,
                     {.effect = "Mean length of a slow period, exponentially distributed.",
                      .trade_off = "Longer than threshold x iteration reaches the barrier."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.slow_factor), real({.low = 1, .high = 1000}),
                     Scope::kOneDaemon,
                     {.unit = "factor",
                      .effect = "How many times as long computing takes in a slow period.",
                      .trade_off = "The mean computation grows with it."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.pause_every),
                     or_null(duration(nanoseconds(1000), hours(1000))), Scope::kOneDaemon,
                     {.effect = "Mean time from the end of a pause of a node to its next; null: no pauses.",
                      .trade_off = "A pause is a garbage collection, a checkpoint, a neighbour's burst."}));
  keys.push_back(row(PACELINE_FIELD(simulate.compute.pause_length), duration(nanoseconds(1000), hours(1000)),
                     Scope::kOneDaemon,
                     {.effect = "Mean length of a pause, exponentially distributed: nothing is computed.",
                      .trade_off = "The node's heartbeats go on, so it is not lost."}));
}

void add_network_and_costs(std::vector<Key>& keys) {
  const Interval ns_per_float{.low = 0, .high = 1e6};
  keys.push_back(row(PACELINE_FIELD(simulate.network.latency), duration(Duration(0), hours(1)),
                     Scope::kOneDaemon,
                     {.effect = "One way, of every message between two processes.",
                      .trade_off = "An iteration is one round trip: two of these."}));
  keys.push_back(row(
      PACELINE_FIELD(simulate.network.bandwidth), one_or_each(bytes_per_second(), "node"), Scope::kOneDaemon,
      {.unit = "bytes per second",
       .effect = "Of a node's link, in each direction; null: unlimited.",
       .trade_off = "The threads of a node share it: one transfer after another. One slow link "
                    "sets the pace of bsp."}));
  keys.push_back(row(PACELINE_FIELD(simulate.network.server_bandwidth), bytes_per_second(), Scope::kOneDaemon,
                     {.unit = "bytes per second",
                      .effect = "Of a server's link, in each direction; null: unlimited.",
                      .trade_off = "All nodes share it equally: what bounds a run with many workers."}));

  keys.push_back(row(PACELINE_FIELD(simulate.costs.message), duration(Duration(0), hours(1)),
                     Scope::kOneDaemon,
                     {.effect = "What a server's loop takes for a message (a frame is one), a node's for a "
                                "push, pull, grant or answer.",
                      .trade_off = "With many workers the authority's loop is busy with it."}));
  keys.push_back(row(PACELINE_FIELD(simulate.costs.apply), real(ns_per_float), Scope::kOneDaemon,
                     {.unit = "ns per float",
                      .effect = "A server applies one gradient.",
                      .trade_off = "Its loop does nothing else meanwhile; shards divide it."}));
  keys.push_back(row(PACELINE_FIELD(simulate.costs.local_apply), real(ns_per_float), Scope::kOneDaemon,
                     {.unit = "ns per float",
                      .effect = "A worker applies its own gradient to its thread cache.",
                      .trade_off = "Only where the threshold may be above 0 (docs/SYNC.md)."}));
  keys.push_back(
      row(PACELINE_FIELD(simulate.costs.copy), real(ns_per_float), Scope::kOneDaemon,
          {.unit = "ns per float",
           .effect = "A worker copies parameters, or adds a kept difference, into its thread cache.",
           .trade_off = "Each refresh pays it."}));
  keys.push_back(row(PACELINE_FIELD(simulate.costs.batch), duration(Duration(0), hours(1)), Scope::kOneDaemon,
                     {.effect = "Getting a mini-batch.", .trade_off = "0 where loaders keep up."}));
}

void add_metric(std::vector<Key>& keys) {
  const Interval accuracy{.low = 0, .high = 1};
  const Interval loss{.low = 0, .high = 1e6};
  keys.push_back(
      row(PACELINE_FIELD(simulate.metric.curve), path_or_null(), Scope::kOneDaemon,
          {.effect = "A file with the header samples,accuracy,loss: what was measured in a real run; "
                     "null: none.",
           .trade_off = "Between its rows straight lines; after the last, the last."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.final_accuracy), or_null(real(accuracy)),
                     Scope::kOneDaemon,
                     {.unit = "fraction",
                      .effect = "Training accuracy that is approached; null: no such curve.",
                      .trade_off = "dtssp needs this or a curve: its threshold follows the metric."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.initial_accuracy), real(accuracy), Scope::kOneDaemon,
                     {.unit = "fraction",
                      .effect = "Training accuracy at the start.",
                      .trade_off = "1 / classes of an untrained network."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.final_loss), real(loss), Scope::kOneDaemon,
                     {.unit = "per sample",
                      .effect = "Training loss that is approached.",
                      .trade_off = "Steers dtssp under lpr.metric: loss."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.initial_loss), real(loss), Scope::kOneDaemon,
                     {.unit = "per sample",
                      .effect = "Training loss at the start.",
                      .trade_off = "ln(classes) of an untrained network."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.half_samples), whole(1, 1'000'000'000'000),
                     Scope::kOneDaemon,
                     {.unit = "samples",
                      .effect = "Half of the way from initial to final is gone after so many.",
                      .trade_off = "Small learns within few windows, so the LPR falls early."}));
  keys.push_back(
      row(PACELINE_FIELD(simulate.metric.noise), choice<MetricNoise>(), Scope::kOneDaemon,
          {.effect = "binomial: each sample is right with the curve's probability; none: the curve.",
           .trade_off = "The noise alone moves dtssp's threshold in short windows."}));
  keys.push_back(row(PACELINE_FIELD(simulate.metric.loss_deviation), real(loss), Scope::kOneDaemon,
                     {.unit = "per sample",
                      .effect = "Standard deviation of one sample's loss, with noise.",
                      .trade_off = "Matters under lpr.metric: loss."}));
}

}  // namespace

void add_simulate(Schema& schema) {
  constexpr Scope kScope = Scope::kOneDaemon;
  schema.sections.push_back(
      {"simulate", "what `paceline simulate` assumes; the daemons do not read it", kScope});
  schema.sections.push_back({"simulate.compute", "how long a worker computes", kScope});
  schema.sections.push_back({"simulate.network", "what lies between the processes", kScope});
  schema.sections.push_back({"simulate.costs", "what the processes themselves take", kScope});
  schema.sections.push_back({"simulate.metric", "how well training goes, by samples learned from", kScope});
  schema.keys.push_back(
      row(PACELINE_FIELD(simulate.mode), choice<SimulateMode>(), kScope,
          {.effect = "timing: nothing is computed, the metric is assumed (simulate.metric); training: real "
                     "gradients on data.path, in the order of the events, so accuracy is a result.",
           .trade_off = "timing: seconds; training: all gradients of the run, one after another, and a "
                        "copy of the parameters for each worker."}));
  schema.keys.push_back(
      row(PACELINE_FIELD(simulate.events), list_of(cluster_event()), kScope,
          {.effect = "What happens to nodes, each {at: DURATION, node: I, kind: crash | join}; `at` "
                     "counts from the first grant. A node whose first event is a join is not there before.",
           .trade_off = "A crashed node is lost, and waited for no longer, after cluster.lease, or when it "
                        "joins again."}));
  add_compute(schema.keys);
  add_network_and_costs(schema.keys);
  add_metric(schema.keys);
}

}  // namespace paceline::config
