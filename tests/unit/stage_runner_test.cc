// Pipelines: K stages that are threads here, over real connections or within the process, against the network in one
// piece; with any number of micro-batches, and whether activations are kept or computed again.
#include "worker/pipeline/stage_runner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "common/network/stage_plan.h"
#include "tests/unit/eventually.h"
#include "tests/unit/model_fixture.h"
#include "tests/unit/switchboard.h"
#include "worker/mesh/channels.h"
#include "worker/mesh/handshake.h"
#include "worker/pipeline/stage_evaluation.h"

namespace paceline {
namespace {

using testing::eventually;

struct Case {
  std::uint32_t micro_batches = 1;
  schedule::PipelineKind kind = schedule::PipelineKind::kGpipe;
  bool rematerialize = false;
  std::uint32_t chunks = 1;
};

// `parts`: of all stages.
schedule::PipelinePlan planned(std::size_t parts, const Case& how) {
  const std::vector<std::int64_t> one(how.rematerialize ? parts : 0, 1);
  return schedule::plan_pipeline(how.kind, static_cast<std::uint32_t>(parts) / how.chunks, how.micro_batches,
                                 one, how.chunks);
}

struct Computed {
  std::vector<float> gradient;
  Metric metric;
  std::vector<StageReport> reports;
};

// All stages at one step, each on a thread of its own.
Computed by_plan(const NetworkSpec& network, const std::vector<StageSpec>& stages, Backend backend,
                 const std::vector<float>& parameters, const Batch& batch,
                 const schedule::PipelinePlan& plan) {
  Computed computed{std::vector<float>(parameters.size(), -1.0F), {}, {}};
  const auto count = static_cast<std::uint32_t>(plan.stages.size());
  computed.reports.resize(count);
  Switchboard board;
  std::vector<Result<Metric>> metrics(count, Result<Metric>(Metric{}));
  const std::vector<Range> held = held_by_stages(stages, count);
  std::vector<std::thread> threads;
  for (std::uint32_t s = 0; s < count; ++s) {
    threads.emplace_back([&, s] {
      auto runner =
          StageRunner::make({network, stages, s, NodeId(s), plan, batch.size(), batch.size(), backend, 5});
      if (!runner.is_ok()) {
        metrics[s] = runner.status();
        return;
      }
      const Range own = held[s];
      const auto part = [&own](auto& whole) {
        return std::span(whole).subspan(static_cast<std::size_t>(own.begin),
                                        static_cast<std::size_t>(own.size()));
      };
      Switchboard::Node node(board, NodeId(s));
      metrics[s] = (*runner)->step({Clock(3), 96}, part(parameters), batch, part(computed.gradient), node);
      computed.reports[s] = (*runner)->report();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& metric : metrics) {
    REQUIRE(metric.status().message() == "");
    REQUIRE(metric->correct == metrics[0]->correct);
    REQUIRE(metric->samples == batch.size());
    REQUIRE(metric->loss_sum == metrics[0]->loss_sum);
  }
  computed.metric = *metrics[0];
  return computed;
}

Computed through_stages(const NetworkSpec& network, const std::vector<StageSpec>& stages, Backend backend,
                        const std::vector<float>& parameters, const Batch& batch, const Case& how) {
  return by_plan(network, stages, backend, parameters, batch, planned(stages.size(), how));
}

Computed in_one_piece(const NetworkSpec& network, Backend kind, const std::vector<float>& parameters,
                      const Batch& batch) {
  Computed whole{std::vector<float>(parameters.size()), {}, {}};
  const auto backend = backend_of(kind, network, batch.size());
  whole.metric = backend->gradient(parameters, batch, whole.gradient, whole_at_the_end).value();
  return whole;
}

std::vector<StageSpec> cut(const NetworkSpec& network, std::uint32_t stages, BalanceKind kind) {
  const KeptByStages kept{planned(stages, {2}).bounds, {4, 4}};
  auto cut = cut_into_stages(network, stages, {kind, {}}, kept);
  REQUIRE(cut.status().message() == "");
  return std::move(cut).value();
}

std::int64_t with_parameters(const NetworkSpec& network) {
  return std::count_if(network.layers.begin(), network.layers.end(),
                       [](const Layer& layer) { return layer.weight.size > 0; });
}

NetworkSpec residual_network() {
  NetworkSpec network =
      network_of({conv(4, 3), named_layer("a", relu()), conv(4, 3), named_layer("b", dropout(0.3)),
                  add({"b", "a"}), relu(), pool(2), dense(12), relu(), dropout(0.5), dense(10)},
                 {3, 6, 6}, 10);
  network.label_smoothing = 0.3;
  return network;
}

// Of seven layers with parameters, and a shortcut over several chunks.
NetworkSpec deep_network() {
  return network_of(
      {conv(4, 3), named_layer("a", relu()), conv(4, 3), relu(), conv(4, 3), named_layer("b", dropout(0.3)),
       add({"b", "a"}), conv(4, 3), relu(), pool(2), dense(12), relu(), dense(12), dropout(0.5), dense(10)},
      {3, 6, 6}, 10);
}

void check_equal(const Computed& stages, const Computed& whole, const NetworkSpec& network,
                 double tolerance) {
  CHECK(stages.metric.correct == whole.metric.correct);
  CHECK(stages.metric.samples == whole.metric.samples);
  CHECK(stages.metric.loss_sum == Approx(whole.metric.loss_sum).epsilon(tolerance));
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    CHECK(relative_l2(stages.gradient, whole.gradient, tensor.offset, tensor.size()) < tolerance);
  }
}

// Activations travel as float32: 6e-8 each.
constexpr double kReference = 1e-6;

TEST_CASE("any_number_of_stages_and_micro_batches_has_the_gradient_of_the_whole_network") {
  const NetworkSpec network = residual_network();
  const RandomBatch batch(network, 16, 7);
  const std::vector<float> parameters = random_parameters(network, 7);
  const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
  for (const std::uint32_t stages : {2U, 3U, 4U}) {
    const std::vector<StageSpec> specs = cut(network, stages, BalanceKind::kTime);
    for (std::uint32_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      for (const auto kind :
           {schedule::PipelineKind::kGpipe, schedule::PipelineKind::kOneForwardOneBackward}) {
        INFO(stages << " stages, " << micro_batches << " micro-batches, schedule " << static_cast<int>(kind));
        const auto ran = [&](bool rematerialize) {
          return through_stages(network, specs, Backend::kReference, parameters, batch.all(),
                                {micro_batches, kind, rematerialize});
        };
        const Computed kept = ran(false);
        check_equal(kept, whole, network, kReference);
        const Computed again = ran(true);
        CHECK(again.gradient == kept.gradient);  // the same bits
        CHECK(again.metric.loss_sum == kept.metric.loss_sum);
      }
    }
  }
}

// Stages of several chunks: of two, both ways between the same nodes. Parameters lie in another order.
TEST_CASE("any_number_of_chunks_has_the_gradient_of_the_whole_network") {
  struct Interleaved {
    std::uint32_t stages, chunks;
  };
  for (const auto& [stages, chunks] : {Interleaved{2, 2}, Interleaved{2, 3}, Interleaved{3, 2}}) {
    NetworkSpec laid_out = deep_network();
    auto parts = cut_into_stages(laid_out, stages, {BalanceKind::kTime, {}}, {}, chunks);
    REQUIRE(parts.status().message() == "");
    parts = lay_out_by_stages(laid_out, *parts, stages);
    CHECK(laid_out.layout.hash() != deep_network().layout.hash());
    const RandomBatch batch(laid_out, 13, 7);
    const std::vector<float> parameters = random_parameters(laid_out, 7);
    const Computed whole = in_one_piece(laid_out, Backend::kReference, parameters, batch.all());
    for (std::uint32_t micro_batches = stages; micro_batches <= 12; micro_batches += stages) {
      INFO(stages << " stages of " << chunks << " chunks, " << micro_batches << " micro-batches");
      const auto ran = [&](bool rematerialize) {
        return through_stages(laid_out, *parts, Backend::kReference, parameters, batch.all(),
                              {micro_batches, schedule::PipelineKind::kInterleaved, rematerialize, chunks});
      };
      const Computed kept = ran(false);
      check_equal(kept, whole, laid_out, kReference);
      const Computed again = ran(true);
      CHECK(again.gradient == kept.gradient);
      CHECK(again.reports[0].activation_bytes < kept.reports[0].activation_bytes);
    }
  }
}

TEST_CASE("every_cut_of_networks_that_branch_has_the_gradient_of_the_whole_network") {
  const Backend backend = GENERATE(Backend::kReference, Backend::kOnednn);
  for (const auto& layers : branching_networks(6, 4, 64)) {
    const NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    const RandomBatch batch(network, 5, 3);
    const std::vector<float> parameters = random_parameters(network, 3);
    const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
    // Each place where there are parameters on both sides.
    for (std::uint32_t first = 1; first < network.layers.size(); ++first) {
      const auto rest = static_cast<std::uint32_t>(network.layers.size() - first);
      const auto specs = cut_into_stages(network, 2, {BalanceKind::kLayers, {first, rest}}, {});
      if (!specs.is_ok()) continue;
      INFO("cut in front of layer " << first << ", " << network.layers[first].name);
      const double tolerance = backend == Backend::kReference ? kReference : 1e-5;
      check_equal(through_stages(network, *specs, backend, parameters, batch.all(), {2}), whole, network,
                  tolerance);
    }
    const auto most = static_cast<std::uint32_t>(with_parameters(network));
    if (most < 3) continue;
    check_equal(through_stages(network, cut(network, 3, BalanceKind::kMemory), backend, parameters,
                               batch.all(), {3, schedule::PipelineKind::kOneForwardOneBackward, true}),
                whole, network, backend == Backend::kReference ? kReference : 1e-5);
  }
}

TEST_CASE("a_smaller_micro_batch_and_rematerialisation_have_the_same_numbers_in_onednn") {
  const NetworkSpec network = residual_network();
  const RandomBatch batch(network, 11, 9);
  const std::vector<float> parameters = random_parameters(network, 9);
  const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
  const std::vector<StageSpec> specs = cut(network, 2, BalanceKind::kTime);
  const Computed kept = through_stages(network, specs, Backend::kOnednn, parameters, batch.all(), {4});
  check_equal(kept, whole, network, 1e-5);
  const Computed again = through_stages(network, specs, Backend::kOnednn, parameters, batch.all(),
                                        {4, schedule::PipelineKind::kGpipe, /*rematerialize=*/true});
  CHECK(again.gradient == kept.gradient);
  for (std::size_t s = 0; s < specs.size(); ++s) {
    CHECK(again.reports[s].activation_bytes < kept.reports[s].activation_bytes);
  }
}

// Each micro-batch is normalised by itself, while evaluations go by the whole mini-batch's statistics.
TEST_CASE("batch_norm_in_stages_goes_by_micro_batches_and_measures_the_mini_batch") {
  const Backend backend = GENERATE(Backend::kReference, Backend::kOnednn);
  const double tolerance = backend == Backend::kReference ? kReference : 1e-5;
  const NetworkSpec network = network_of({batch_norm(), relu(), conv_without_bias(4, 3), batch_norm(), relu(),
                                          pool(2), dense(12), relu(), dropout(0.5), dense(10)},
                                         {3, 6, 6}, 10);
  const RandomBatch batch(network, 11, 9);
  const std::vector<float> parameters = random_parameters(network, 9);
  const std::vector<StageSpec> specs = cut(network, 3, BalanceKind::kTime);
  const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
  check_equal(through_stages(network, specs, backend, parameters, batch.all(), {1}), whole, network,
              tolerance);

  const Computed stages = through_stages(network, specs, backend, parameters, batch.all(), {4});
  std::vector<double> sum(parameters.size(), 0.0);
  std::int64_t first = 0;
  for (const std::int64_t size : schedule::micro_batch_sizes(11, 4)) {
    const Computed one = in_one_piece(network, Backend::kReference, parameters, batch.slice(first, size));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one.gradient[i] * static_cast<double>(size) / 11.0;
    first += size;
  }
  const std::vector<float> expected(sum.begin(), sum.end());
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    // What came into the first one depends on no other, so it is known of the mini-batch.
    const bool is_variance = tensor.name.ends_with("running_var");
    const bool in_front = tensor.offset < network.layers[2].weight.offset;
    if (is_variance && !in_front) continue;
    const std::vector<float>& truth = is_variance ? whole.gradient : expected;
    CHECK(relative_l2(stages.gradient, truth, tensor.offset, tensor.size()) < tolerance);
  }
  const Computed again = through_stages(network, specs, backend, parameters, batch.all(),
                                        {4, schedule::PipelineKind::kGpipe, /*rematerialize=*/true});
  CHECK(again.gradient == stages.gradient);
}

TEST_CASE("a_network_in_stages_on_one_node_has_the_metric_of_the_whole_one") {
  const Backend backend = GENERATE(Backend::kReference, Backend::kOnednn);
  std::vector<std::vector<LayerConfig>> networks = branching_networks(6, 4, 64);
  networks.push_back({batch_norm(), conv(4, 3), relu(), batch_norm(), dropout(0.5), dense(10)});
  for (const auto& layers : networks) {
    NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    network.label_smoothing = 0.3;           // which evaluations leave out
    const RandomBatch batch(network, 7, 3);  // in parts of 3, 3 and 1
    const std::vector<float> parameters = random_parameters(network, 3);
    const auto stages = cut(network, 2, BalanceKind::kTime);
    const auto whole = backend_of(backend, network, 8)->evaluate(parameters, batch.all());
    for (const bool keeps : {false, true}) {
      const auto evaluator = evaluate_by_stages(backend, network, stages, 8, 3, keeps);
      for (int again = 0; again < 2; ++again) {
        const auto by_stages = evaluator->evaluate(parameters, batch.all());
        REQUIRE(by_stages.status().message() == "");
        CHECK(by_stages->samples == 7);
        CHECK(by_stages->correct == whole->correct);
        CHECK(by_stages->loss_sum == Approx(whole->loss_sum).epsilon(1e-5));
      }
    }
  }
}

// Beside every cut by hand.
TEST_CASE("the_most_expensive_stage_of_a_cut_is_the_cheapest_that_there_is") {
  const NetworkSpec network = deep_network();
  const KeptByStages kept{planned(3, {2}).bounds, {4, 4}};
  const auto most = [&](BalanceKind kind, const std::vector<StageSpec>& stages) {
    std::int64_t found = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const StageCost time = cost_of(network, stages[s]);
      const std::int64_t bytes = stage_bytes(network, stages[s], kept.stages[s], kept.sizes);
      found = std::max(found, kind == BalanceKind::kTime ? time.multiply_adds + time.activations : bytes);
    }
    return found;
  };
  const auto all = static_cast<std::uint32_t>(network.layers.size());
  for (const BalanceKind kind : {BalanceKind::kTime, BalanceKind::kMemory}) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t first = 1; first < all; ++first) {
      for (std::uint32_t second = 1; first + second < all; ++second) {
        const StageBalance by_hand{BalanceKind::kLayers, {first, second, all - first - second}};
        const auto stages = cut_into_stages(network, 3, by_hand, kept);
        if (stages.is_ok()) least = std::min(least, most(kind, *stages));
      }
    }
    CHECK(most(kind, cut_into_stages(network, 3, {kind, {}}, kept).value()) == least);
  }
}

TEST_CASE("memory_that_is_there_is_used_and_no_more") {
  // Channels that the library does not pad.
  const NetworkSpec network = network_of(
      {conv(16, 3), relu(), conv(16, 3), relu(), pool(2), dense(16), relu(), dense(10)}, {3, 6, 6}, 10);
  RunConfig config;
  config.train.batch_size = 8;
  config.pipeline = {2, 4, schedule::PipelineKind::kGpipe, Rematerialize::kAuto, {}, {}};
  const std::vector<StageSpec> specs = cut(network, 2, BalanceKind::kTime);
  const RandomBatch batch(network, 16, 9);
  const std::vector<float> parameters = random_parameters(network, 9);
  const Computed kept = through_stages(network, specs, Backend::kOnednn, parameters, batch.all(), {4});
  const std::vector<std::int64_t> sizes = schedule::micro_batch_sizes(16, 4);
  const std::int64_t enough = stage_bytes(network, specs[1], {4, 3}, sizes);
  config.pipeline.memory = enough;
  const auto plan = plan_of_run(config, network, specs);
  REQUIRE(plan.status().message() == "");
  CHECK(schedule::to_string(plan->stages[1]) == "F0 F1 F2 F3 B3 B2 B1 R0 B0");
  const Computed some = by_plan(network, specs, Backend::kOnednn, parameters, batch.all(), *plan);
  CHECK(some.gradient == kept.gradient);
  for (std::size_t s = 0; s < specs.size(); ++s) {
    const std::int64_t counted = 3 * std::int64_t{sizeof(float)} * specs[s].parameters.size();
    CHECK(some.reports[s].activation_bytes + counted <= enough);
  }
  config.pipeline.memory = stage_bytes(network, specs[1], {4, 1}, sizes) - 1;
  CHECK_THAT(plan_of_run(config, network, specs).status().message(),
             Catch::Matchers::StartsWith("got stage 1 that needs ") &&
                 Catch::Matchers::EndsWith("(less may be needed with pipeline.balance: memory, more "
                                           "micro-batches or more stages)"));
}

// What comes in is larger than all that the backward pass reads; but a micro-batch that is kept has its memory.
TEST_CASE("computing_again_takes_no_more_than_keeping_where_much_comes_in") {
  const NetworkSpec network = network_of({conv(8, 3), relu(), pool(2), dense(10)}, {3, 8, 8}, 10);
  const KeptByStages kept_by{planned(2, {4}).bounds, {4, 4, 4, 4}};
  const auto specs = cut_into_stages(network, 2, {BalanceKind::kLayers, {1, 3}}, kept_by);
  REQUIRE(specs.status().message() == "");
  const RandomBatch batch(network, 16, 9);
  const std::vector<float> parameters = random_parameters(network, 9);
  const auto ran = [&](bool rematerialize) {
    return through_stages(network, *specs, Backend::kOnednn, parameters, batch.all(),
                          {4, schedule::PipelineKind::kGpipe, rematerialize});
  };
  const Computed kept = ran(false);
  const Computed again = ran(true);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(again.reports[s].activation_bytes < kept.reports[s].activation_bytes);
  }
}

// A convolution reads another format than what comes in has: the copy is kept, and counts.
TEST_CASE("what_a_stage_is_given_counts_among_what_it_keeps") {
  const NetworkSpec network = network_of({conv(16, 3), conv(16, 3), dense(10)}, {3, 6, 6}, 10);
  const KeptByStages kept{planned(2, {1}).bounds, {4}};
  const auto specs = cut_into_stages(network, 2, {BalanceKind::kLayers, {1, 2}}, kept);
  REQUIRE(specs.status().message() == "");
  const RandomBatch batch(network, 4, 9);
  const Computed computed =
      through_stages(network, *specs, Backend::kOnednn, random_parameters(network, 9), batch.all(), {1});
  const std::int64_t floats = 4 * floats_of(network, (*specs)[1].inputs);
  // What came in as it came, its copy, and as much that the convolution gives.
  CHECK(computed.reports[1].activation_bytes >= 3 * floats * std::int64_t{sizeof(float)});
}

// ---- over connections

struct Ends {
  Status status;
  Metric metric;
  std::vector<float> gradient;
  std::int64_t shared = 0;  // messages whose floats were not sent
};

enum class Memory { kOwn, kShared };

// Stages at a step each over real connections; stage `leaves` goes instead.
std::vector<Ends> over_connections(const NetworkSpec& network, const std::vector<StageSpec>& parts,
                                   const std::vector<float>& parameters, const Batch& batch,
                                   std::optional<std::uint32_t> leaves, Memory memory,
                                   const Case& how = {4}) {
  const schedule::PipelinePlan plan = planned(parts.size(), how);
  const std::vector<Range> stages = held_by_stages(parts, static_cast<std::uint32_t>(plan.stages.size()));
  std::vector<std::unique_ptr<mesh::Listening>> listening;
  std::vector<std::string> endpoints;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    auto one = mesh::listen_at("127.0.0.1");
    REQUIRE(one.is_ok());
    endpoints.push_back(one->endpoint);
    listening.push_back(std::make_unique<mesh::Listening>(std::move(one).value()));
  }
  std::vector<mesh::StopFlag> stops(stages.size());
  std::vector<Ends> ends(stages.size());
  std::vector<std::shared_ptr<mesh::Channels>> open(stages.size());  // until all are done
  std::vector<std::thread> threads;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    threads.emplace_back([&, s] {
      constexpr std::chrono::milliseconds kWithin(20'000);
      const mesh::Place place{s, endpoints, 7, {}, memory == Memory::kShared};
      auto connections = mesh::shake_hands(*listening[s], place, stops[s], kWithin);
      if (!connections.is_ok() || leaves == s) {
        ends[s].status = connections.status();
        return;
      }
      open[s] = mesh::Channels::over(std::move(connections).value(), place, stops[s],
                                     {StageRunner::peer_bounds(network, parts, s, plan, batch.size()), {}});
      for (std::uint32_t other = 0; place.shares && !leaves && other < stages.size(); ++other) {
        if (other + 1 == s || other == s + 1) eventually([&] { return open[s]->shares_with(NodeId(other)); });
      }
      auto runner = StageRunner::make(
          {network, parts, s, NodeId(s), plan, batch.size(), batch.size(), Backend::kReference, 5});
      const Range own = stages[s];
      std::vector<float>& gradient = ends[s].gradient;
      gradient.resize(static_cast<std::size_t>(own.size()));
      const auto held = std::span(parameters).subspan(static_cast<std::size_t>(own.begin), gradient.size());
      for (std::int64_t clock = 0; clock < 3 && ends[s].status.is_ok(); ++clock) {
        const auto metric =
            (*runner)->step({Clock(clock), clock * batch.size()}, held, batch, gradient, *open[s]);
        ends[s].status = metric.status();
        if (metric.is_ok()) ends[s].metric = *metric;
      }
      ends[s].shared = open[s]->shared();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST_CASE("stages_on_connections_take_one_step_after_the_other") {
  const NetworkSpec network = residual_network();
  const RandomBatch batch(network, 6, 4);
  const std::vector<float> parameters = random_parameters(network, 4);
  const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
  const std::vector<StageSpec> stages = cut(network, 3, BalanceKind::kTime);
  const auto sent = over_connections(network, stages, parameters, batch.all(), std::nullopt, Memory::kOwn);
  const auto shared =
      over_connections(network, stages, parameters, batch.all(), std::nullopt, Memory::kShared);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    CHECK(sent[s].status.message() == "");
    CHECK(shared[s].status.message() == "");
    CHECK(sent[s].metric.loss_sum == Approx(whole.metric.loss_sum).epsilon(kReference));
    CHECK(shared[s].gradient == sent[s].gradient);
    CHECK(sent[s].shared == 0);
    CHECK(shared[s].shared > 0);
  }
}

TEST_CASE("interleaved_stages_on_connections_take_one_step_after_the_other") {
  NetworkSpec network = deep_network();
  const std::uint32_t stages = GENERATE(2, 3);
  auto parts = cut_into_stages(network, stages, {BalanceKind::kTime, {}}, {}, 2);
  REQUIRE(parts.is_ok());
  parts = lay_out_by_stages(network, *parts, stages);
  const RandomBatch batch(network, 6, 4);
  const std::vector<float> parameters = random_parameters(network, 4);
  const Computed whole = in_one_piece(network, Backend::kReference, parameters, batch.all());
  const Memory memory = GENERATE(Memory::kOwn, Memory::kShared);
  const auto ends = over_connections(network, *parts, parameters, batch.all(), std::nullopt, memory,
                                     {6, schedule::PipelineKind::kInterleaved, false, 2});
  for (const Ends& stage : ends) {
    CHECK(stage.status.message() == "");
    CHECK(stage.metric.loss_sum == Approx(whole.metric.loss_sum).epsilon(kReference));
    CHECK((stage.shared > 0) == (memory == Memory::kShared));
  }
}

TEST_CASE("a_stage_that_is_gone_ends_the_others_and_is_named") {
  const NetworkSpec network = residual_network();
  const RandomBatch batch(network, 6, 4);
  const std::vector<float> parameters = random_parameters(network, 4);
  const auto ends = over_connections(network, cut(network, 3, BalanceKind::kTime), parameters, batch.all(), 1,
                                     GENERATE(Memory::kOwn, Memory::kShared));
  for (const std::uint32_t s : {0U, 2U}) {
    CHECK(ends[s].status.code() == StatusCode::kUnavailable);
    CHECK_THAT(ends[s].status.message(), Catch::Contains("node 1 (127.0.0.1:"));
    CHECK_THAT(ends[s].status.message(), Catch::Contains("closed its connection"));
  }
}

}  // namespace
}  // namespace paceline
