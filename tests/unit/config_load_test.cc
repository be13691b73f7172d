// Loading: defaults, overrides, units, and the way back to YAML.
#include <catch2/catch.hpp>

#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/config/names.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Contains;
using Catch::Matchers::EndsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

RunConfig loaded(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Result<RunConfig> config = parse_config(text, "test.yaml", overrides);
  INFO(text);
  if (!config) FAIL(config.status().message());
  return std::move(config).value();
}

TEST_CASE("keys_that_are_not_given_have_the_defaults_of_the_structs") {
  CHECK(loaded("run: {}") == RunConfig{});
  CHECK(loaded("run:\nsync:\n") == RunConfig{});  // sections whose every line is commented out
}

TEST_CASE("values_of_every_type_reach_their_fields") {
  const RunConfig c = loaded(R"(
run: {name: "a-b.c", seed: 18446744073709551615, max_seconds: 1.5m, target_accuracy: 0.8}
cluster:
  nodes: 2
  shards: 2
  endpoints: ["tcp://10.0.0.1:5555", "ipc:///tmp/with space"]
  lease: 2500ms
  frame_bytes: 256KiB
security: {keys: "some/keys"}
checkpoint: {every: 90s, keep: 3}
sync: {policy: dtssp, threshold: 4, refresh_clocks: null, lpr: {metric: loss, decrease_below: -1e-1}}
train: {optimizer: {kind: adam, schedule: {kind: cosine}}, share: pool, eval_every_clocks: 5, on_nan: skip}
emulate: {base_step: 250us, slowdown: [1, 2.5]}
)");
  CHECK(c.run.name == "a-b.c");
  CHECK(c.run.seed == 18446744073709551615u);
  CHECK(c.run.max_seconds == seconds(90));
  CHECK(c.cluster.endpoints == std::vector<std::string>{"tcp://10.0.0.1:5555", "ipc:///tmp/with space"});
  CHECK(c.cluster.lease == milliseconds(2500));
  CHECK(c.checkpoint == CheckpointSection{std::nullopt, seconds(90), 3});
  CHECK(c.checkpoint.enabled());
  CHECK_FALSE(RunConfig{}.checkpoint.enabled());
  CHECK((c.security.keys == "some/keys" && !c.security.allow_insecure));
  CHECK(c.cluster.frame_bytes == 256 * 1024);
  CHECK(c.sync.policy == PolicyKind::kDtssp);
  CHECK_FALSE(c.sync.refresh_clocks);
  CHECK(c.sync.lpr.decrease_below == -0.1);
  CHECK(c.train.optimizer.schedule.kind == ScheduleKind::kCosine);
  CHECK(c.train.share == Share::kPool);
  CHECK(c.emulate.base_step == std::chrono::microseconds(250));
  CHECK(c.emulate.slowdown == std::vector<double>{1.0, 2.5});
}

TEST_CASE("an_override_wins_over_the_file_and_a_later_one_over_an_earlier_one") {
  const std::string file = "cluster: {nodes: 2}\nemulate: {base_step: 1s, slowdown: [1, 2]}\n";
  const RunConfig c = loaded(file, {"cluster.nodes=3", "emulate.slowdown=[1, 2, 3]", "cluster.nodes=4",
                                    "emulate.slowdown=[2]", "cluster.endpoints=[ipc:///tmp/x.0]"});
  CHECK(c.cluster.nodes == 4);
  CHECK(c.emulate.slowdown == std::vector<double>{2.0});
  CHECK(c.cluster.endpoints == std::vector<std::string>{"ipc:///tmp/x.0"});
}

TEST_CASE("the_limits_of_progress_are_read_where_a_stage_is_dtssp_and_their_defaults_say_nothing") {
  const RunConfig c = loaded(
      "sync: {policy: switch, lpr: {increase_above: 4}, stages: [{policy: bsp, until: {version: 5}}, "
      "{policy: dtssp}]}");
  CHECK(engine_config(c).policy.increase_above == 4.0);
  const std::string given =
      "cluster: {nodes: 2}\nsync: {policy: dtssp, lpr: {increase_above: 5, decrease_below: -5}}";
  for (const char* policy : {"bsp", "asp", "ssp", "random_walk", "dssp", "backup"}) {
    INFO(policy);
    CHECK(loaded(given, {std::string("sync.policy=") + policy}).sync.lpr == LprSection{});
  }
}

TEST_CASE("an_override_with_null_takes_a_value_of_the_file_back") {
  CHECK_FALSE(loaded("emulate: {base_step: 1s}", {"emulate.base_step=null"}).emulate.base_step);
  const std::string ssp = "sync: {policy: ssp, threshold: 7}";
  CHECK(loaded(ssp, {"sync.threshold=null"}).sync.threshold == 3);
  CHECK(loaded(ssp, {"sync.policy=bsp", "sync.threshold="}).sync.policy == PolicyKind::kBsp);
}

TEST_CASE("a_worker_s_own_optimizer_has_the_servers_keys_and_there_is_one_where_a_key_of_it_is_given") {
  const RunConfig diloco = loaded(
      "train: {local_steps: 50, inner_optimizer: {kind: momentum, lr: 0.02, schedule: {kind: cosine}}, "
      "optimizer: {kind: momentum, lr: 0.7, nesterov: true}}");
  CHECK((diloco.train.local_steps == 50 && diloco.train.has_inner_optimizer));
  CHECK(diloco.train.inner_optimizer.kind == OptimizerKind::kMomentum);
  CHECK(diloco.train.inner_optimizer.lr == 0.02);
  CHECK(diloco.train.inner_optimizer.schedule.kind == ScheduleKind::kCosine);
  CHECK_FALSE(diloco.train.inner_optimizer.nesterov);
  CHECK(diloco.train.optimizer.lr == 0.7);
  CHECK(loaded(to_yaml(diloco)) == diloco);
  CHECK((diloco.train.rounds() == 20 && diloco.train.round_samples() == 50 * 128));
  CHECK_FALSE(loaded("run: {}").train.has_inner_optimizer);
  CHECK(loaded(to_yaml(loaded("run: {}"))) == loaded("run: {}"));
  CHECK(loaded("train: {local_steps: 1, inner_optimizer: {kind: sgd}}").train.has_inner_optimizer);
}

TEST_CASE("of_local_steps_servers_average_where_no_outer_rate_is_given") {
  const std::string rounds = "train: {local_steps: 10, inner_optimizer: {kind: sgd}}";
  const auto outer_rate = [&](const std::vector<std::string>& more) {
    return loaded(rounds, more).train.optimizer.lr;
  };
  CHECK(outer_rate({}) == 1.0);
  CHECK(outer_rate({"sync.policy=asp", "cluster.nodes=4", "cluster.threads_per_node=2"}) == 0.125);
  CHECK(outer_rate({"train.optimizer.lr=0.3"}) == 0.3);
  CHECK(outer_rate({"train.optimizer.lr=null"}) == 1.0);
  CHECK(loaded(rounds).train.inner_optimizer.lr == 0.01);
  CHECK(loaded("run: {}").train.optimizer.lr == 0.01);
}

TEST_CASE("the_stages_of_a_switch_are_read_and_become_the_engines") {
  const RunConfig c = loaded(R"(
train: {total_iterations: 101}
sync:
  policy: switch
  stages:
    - {policy: bsp, until: {progress: 0.5}}
    - {policy: dtssp, threshold: 4, until: {train_loss: 0.25}}
    - {policy: ssp, threshold: 7}
)");
  REQUIRE(c.sync.stages.size() == 3);
  CHECK(c.sync.apply == ApplyMode::kVersioned);
  CHECK(c.sync.stages[0].policy == PolicyKind::kBsp);
  CHECK(c.sync.stages[0].until == StageUntil{StageEnd::kProgress, 0.5});
  CHECK(c.sync.stages[1].threshold == 4);
  CHECK(c.sync.stages[1].threshold_max == 10);
  CHECK(c.sync.stages[1].until == StageUntil{StageEnd::kTrainLoss, 0.25});
  CHECK(c.sync.stages[2].until == StageUntil{});
  const std::vector<PolicyStage> stages = engine_config(c).policy.stages;
  CHECK(stages[0].until == StageUntil{StageEnd::kIterations, 51});  // half of 101, rounded up
  CHECK(stages[2] == c.sync.stages[2]);
  CHECK(sync::validate(engine_config(c)));
}

TEST_CASE("bsp_then_asp_averages_and_then_applies_each_gradient_on_arrival") {
  const RunConfig c = loaded(R"(
sync:
  policy: switch
  stages:
    - {policy: bsp, lr_scale: 4, until: {progress: 0.25}}
    - {policy: asp, until: {progress: 0.5}}
    - {policy: ssp, threshold: 2}
)");
  CHECK(c.sync.apply == ApplyMode::kVersioned);
  CHECK(c.sync.combine == CombineMode::kMean);
  CHECK(c.sync.stages[0].lr_scale == 4.0);
  CHECK(c.sync.stages[1].lr_scale == 1.0);
  CHECK(apply_in(c.sync.stages, c.sync.apply, 0) == ApplyMode::kVersioned);
  CHECK(apply_in(c.sync.stages, c.sync.apply, 1) == ApplyMode::kEager);
  CHECK(apply_in(c.sync.stages, c.sync.apply, 2) == ApplyMode::kEager);  // as the stage before it
  CHECK(sync::validate(engine_config(c)));
  // What is written is read again.
  CHECK(loaded(to_yaml(c)) == c);
}

TEST_CASE("a_stage_of_any_policy_may_apply_on_arrival") {
  const RunConfig c = loaded(
      "sync: {policy: switch, stages: [{policy: bsp, until: {version: 2}}, {policy: ssp, apply: eager}]}");
  CHECK(apply_in(c.sync.stages, c.sync.apply, 1) == ApplyMode::kEager);
  CHECK(loaded(to_yaml(c)) == c);
  CHECK(loaded("sync: {policy: switch, stages: [{policy: ssp, apply: eager, until: {version: 2}}, {policy: "
               "dtssp}]}")
            .sync.apply == ApplyMode::kEager);
}

TEST_CASE("a_share_of_the_run_is_the_number_of_iterations_that_was_meant") {
  CHECK(iterations_of(0.14, 100'000) == 14'000);  // 14000.000000000002
  CHECK(iterations_of(0.55, 1600) == 880);
  CHECK(iterations_of(0.07, 1'000'000'000'000) == 70'000'000'000);
  CHECK(iterations_of(0.140001, 100'000) == 14'001);
  CHECK(iterations_of(1e-9, 100) == 1);
}

TEST_CASE("a_stage_may_begin_at_the_last_version_but_one") {
  // Four workers, 80 iterations: at version 19 everybody has one more to do.
  for (const char* until : {"version: 19", "iterations: 76", "progress: 0.95"}) {
    INFO(until);
    const RunConfig c =
        loaded(std::string("{cluster: {nodes: 4}, train: {total_iterations: 80}, sync: {policy: "
                           "switch, stages: [{policy: bsp, until: {") +
               until + "}}, {policy: ssp}]}}");
    CHECK(c.sync.stages.size() == 2);
  }
  // From a pool one worker may take nearly all, a version each.
  CHECK(
      loaded(
          "{cluster: {nodes: 4}, train: {total_iterations: 80, share: pool}, sync: {policy: switch, stages: "
          "[{policy: ssp, until: {version: 70}}, {policy: ssp}]}}")
          .sync.stages.size() == 2);
}

TEST_CASE("apply_and_combine_default_by_policy") {
  struct Case {
    const char* sync;
    ApplyMode apply;
    CombineMode combine;
  };
  for (const Case& expected :
       {Case{"{policy: bsp}", ApplyMode::kVersioned, CombineMode::kMean},
        Case{"{policy: ssp}", ApplyMode::kVersioned, CombineMode::kMean},
        Case{"{policy: dtssp}", ApplyMode::kVersioned, CombineMode::kMean},
        Case{"{policy: asp}", ApplyMode::kEager, CombineMode::kEach},
        Case{"{policy: ssp, apply: eager}", ApplyMode::kEager, CombineMode::kEach},
        Case{"{policy: bsp, combine: each}", ApplyMode::kVersioned, CombineMode::kEach}}) {
    INFO(expected.sync);
    const RunConfig c = loaded(std::string("sync: ") + expected.sync);
    CHECK(c.sync.apply == expected.apply);
    CHECK(c.sync.combine == expected.combine);
  }
}

TEST_CASE("lambda_defaults_by_the_kind_of_compensation") {
  const auto lambda = [](const std::string& keys) {
    const RunConfig config =
        loaded("sync: {policy: asp}\ntrain: {optimizer: {kind: sgd, delay_compensation: {" + keys + "}}}");
    return config.train.optimizer.delay_compensation.lambda;
  };
  CHECK(lambda("kind: constant") == 0.04);
  CHECK(lambda("kind: adaptive") == 2.0);
  CHECK(lambda("kind: adaptive, lambda: 0.04") == 0.04);
}

TEST_CASE("a_convolution_keeps_the_size_and_a_pool_divides_it_unless_told_otherwise") {
  const RunConfig c = loaded(R"(
train:
  model: layers
  layers:
    - {kind: conv, out: 32, kernel: 5}
    - {kind: pool, kernel: 2}
    - {kind: conv, out: 8, kernel: 3, stride: 2, padding: 0}
    - {kind: dropout, rate: 0.25}
    - {kind: dense, out: 10}
)");
  REQUIRE(c.train.layers.size() == 5);
  CHECK(c.train.layers[0] ==
        LayerConfig{.kind = LayerKind::kConv, .out = 32, .kernel = 5, .stride = 1, .padding = 2});
  CHECK(c.train.layers[1] == LayerConfig{.kind = LayerKind::kPool, .kernel = 2, .stride = 2, .padding = 0});
  CHECK(c.train.layers[2] ==
        LayerConfig{.kind = LayerKind::kConv, .out = 8, .kernel = 3, .stride = 2, .padding = 0});
  CHECK(c.train.layers[3].rate == 0.25);
}

TEST_CASE("a_layer_of_which_nothing_new_is_said_is_written_as_before_there_were_names") {
  const RunConfig c = loaded(
      "train: {model: layers, layers: [{kind: conv, out: 3, kernel: 3}, {kind: relu}, "
      "{kind: dropout, rate: 0.5}, {kind: dense, out: 10}]}");
  CHECK_THAT(to_yaml(c), Contains("layers: [{kind: conv, out: 3, kernel: 3, stride: 1, padding: 1}, "
                                  "{kind: relu}, {kind: dropout, rate: 0.5}, {kind: dense, out: 10}]"));
}

TEST_CASE("the_effective_configuration_loads_again_as_the_same_configuration") {
  for (const char* text : {
           "run: {}",
           "sync: {policy: asp}",
           "cluster: {nodes: {min: 2, max: 8}}",
           "cluster: {gradient_encoding: top_k, top_k_share: 0.01, parameter_encoding: bf16}",
           "sync: {policy: dtssp, threshold: 5, threshold_max: 6, combine: each, refresh_clocks: null}",
           "sync: {policy: switch, stages: [{policy: dssp, until: {version: 2}}, {policy: ssp, "
           "threshold: 0, "
           "until: {train_accuracy: 0.5}}, {policy: asp}]}",
           "run: {name: x, out: 'a \"quoted\" \\\\ path', max_seconds: 1h, target_accuracy: 0.1}\n"
           "train: {eval_every_clocks: 3, optimizer: {kind: adam, lr: 0.1, epsilon: 1e-9}}",
           "emulate: {base_step: 1500us, slowdown: [1.1, 0.3333333333333333], jitter: lognormal}\ncluster: "
           "{nodes: 2}",
           "simulate: {network: {bandwidth: 1GiB}}",
           "cluster: {nodes: 2}\nsimulate: {network: {bandwidth: [1GiB, null]}}",
           "train: {model: layers, layers: [{kind: conv, out: 3, kernel: 3}, {kind: relu},\n"
           "  {kind: pool, kernel: 3, stride: 2, padding: 1}, {kind: flatten}, {kind: dropout, rate: 0.1}, "
           "{kind: dense, out: "
           "10}]}",
           "train: {model: layers, optimizer: {weight_decay: 0.1, decay: weights}, layers: [\n"
           "  {kind: conv, out: 3, kernel: 3, name: a.b, lr_factor: 0.5, decay_factor: 0}, {kind: relu, "
           "from: [a.b]},\n"
           "  {kind: add, from: [relu1, input]}, {kind: concat, name: c-1, from: [add1, input]},\n"
           "  {kind: global_average_pool}, {kind: dense, out: 10}]}",
           "train: {model: layers, optimizer: {weight_decay: 0.1}, layers: [\n"
           "  {kind: conv, out: 3, kernel: 3, bias: false}, {kind: batch_norm, epsilon: 1e-3, momentum: "
           "0.5},\n"
           "  {kind: batch_norm, decay_factor: 1, weight_init: {kind: constant, value: 0}}, {kind: dense, "
           "out: 10}]}",
           "train: {model: resnet20, zero_gamma: true}",
       }) {
    const RunConfig config = loaded(text);
    const std::string yaml = to_yaml(config);
    CHECK(loaded(yaml) == config);
    CHECK(to_yaml(loaded(yaml)) == yaml);
  }
}

TEST_CASE("null_takes_a_value_back_that_nobody_reads_any_more") {
  const std::string file = "simulate: {metric: {final_accuracy: 0.8, half_samples: 400000}}";
  const std::vector<std::string> both{"simulate.metric.final_accuracy=null",
                                      "simulate.metric.half_samples=null"};
  CHECK_THAT(testing::refusal(file, {both[0]}),
             EndsWith("nobody reads it, got 400000, expected a final_accuracy, or "
                      "no value (null)"));
  CHECK(loaded(file, both) == loaded("run: {}"));
  // Where it is read, it is the default.
  CHECK(loaded(file, {both[1]}).simulate.metric.half_samples == SimulatedMetric{}.half_samples);
  CHECK(loaded("train: {optimizer: {kind: momentum, momentum: 0.5}}",
               {"train.optimizer.kind=adam", "train.optimizer.momentum=null"}) ==
        loaded("train: {optimizer: {kind: adam}}"));
  CHECK_THAT(testing::refusal("train: {batch_size: 8}", {"train.batch_size=null"}),
             Contains("wrong type, got null"));
}

TEST_CASE("links_have_one_bandwidth_or_one_for_each_node_and_are_written_as_they_were_given") {
  const std::string key = "simulate.network.bandwidth";
  for (const auto& [given, written] :
       std::vector<std::pair<std::string, std::string>>{{"1048576KiB", "1GiB"},
                                                        {"[1GiB]", "1GiB"},
                                                        {"null", "null"},
                                                        {"[1GiB, null]", "[1GiB, null]"},
                                                        {"[1GiB, 1GiB]", "[1GiB, 1GiB]"}}) {
    CHECK(*value_of(loaded("cluster: {nodes: 2}", {key + "=" + given}), key) == written);
  }
  const std::string file = "cluster: {nodes: 2}\nsimulate: {network: {bandwidth: [1GiB, 1MiB]}}";
  CHECK(loaded(file, {key + "=null"}).simulate == loaded("run: {}").simulate);
}

TEST_CASE("a_run_may_begin_with_fewer_nodes_than_it_may_grow_to") {
  const RunConfig grows = loaded("cluster: {nodes: {min: 2, max: 8}}");
  CHECK((grows.cluster.nodes == 8 && grows.cluster.nodes_at_start == 2U));
  CHECK(engine_config(grows).nodes_at_start == 2U);
  CHECK(*value_of(grows, "cluster.nodes") == "{min: 2, max: 8}");
  CHECK(fingerprint(grows) != fingerprint(loaded("cluster: {nodes: 8}")));
  const RunConfig all = loaded("cluster: {nodes: {min: 8, max: 8}}");
  CHECK(all == loaded("cluster: {nodes: 8}"));
  CHECK(loaded("cluster: {nodes: {min: 2, max: 8}}", {"cluster.nodes=3"}) == loaded("cluster: {nodes: 3}"));
}

TEST_CASE("a_resume_may_change_how_stages_are_cut_and_not_what_they_compute") {
  const std::string base =
      "cluster: {nodes: 2}\ntrain: {total_iterations: 40}\npipeline: {stages: 2, micro_batches: 4}";
  const RunConfig run = loaded(base);
  for (const char* may : {"pipeline.balance=[5, 5]", "pipeline.rematerialize=on", "pipeline.memory=1GiB"}) {
    INFO(may);
    CHECK(fingerprint(loaded(base, {may}), AgreedBy::kRun) == fingerprint(run, AgreedBy::kRun));
    CHECK(fingerprint(loaded(base, {may})) != fingerprint(run));
  }
  CHECK(fingerprint(loaded(base, {"pipeline.micro_batches=2"}), AgreedBy::kRun) !=
        fingerprint(run, AgreedBy::kRun));
}

TEST_CASE("a_resume_may_change_when_a_run_ends_and_nothing_else_that_is_agreed_on") {
  const std::string base = "cluster: {nodes: 2}\ntrain: {eval_every_clocks: 5, on_nan: skip}";
  const RunConfig run = loaded(base);
  for (const char* may : {"run.max_seconds=1h", "run.target_accuracy=0.9", "train.total_iterations=77",
                          "train.skips_max=0.1"}) {
    INFO(may);
    CHECK(fingerprint(loaded(base, {may}), AgreedBy::kRun) == fingerprint(run, AgreedBy::kRun));
    CHECK(fingerprint(loaded(base, {may})) != fingerprint(run));
  }
  for (const char* may_not : {"run.seed=2", "train.batch_size=64", "cluster.nodes=3", "sync.policy=ssp"}) {
    INFO(may_not);
    CHECK(fingerprint(loaded(base, {may_not}), AgreedBy::kRun) != fingerprint(run, AgreedBy::kRun));
  }
}

TEST_CASE("configurations_that_differ_are_told_apart_by_key_with_both_values") {
  const RunConfig ours = loaded("run: {seed: 7}\ntrain: {batch_size: 32}\nsync: {policy: ssp}");
  CHECK(differing_settings(settings(ours), settings(ours)).empty());
  const RunConfig theirs = loaded("run: {seed: 7, out: elsewhere}\ntrain: {total_iterations: 9}");
  const std::string reported = differing_settings(settings(theirs), settings(ours));
  CHECK_THAT(reported, Contains("train.batch_size: got 128, expected 32; ") &&
                           Contains("train.total_iterations: got 9, expected 1000") &&
                           Contains("sync.policy: got bsp, expected ssp"));
  CHECK_THAT(reported, !Contains("seed") && !Contains("out"));
  CHECK_THAT(differing_settings(settings(theirs), settings(ours), AgreedBy::kRun),
             !Contains("total_iterations"));
  CHECK_FALSE(settings(loaded("run: {name: plain}")).empty());
}

TEST_CASE("a long list of layers is compared whole, though no message holds it") {
  const auto deep = [](const std::string& width) {
    std::string layers = "{kind: flatten}";
    for (int i = 0; i < 200; ++i) layers += ", {kind: dense, out: " + width + "}, {kind: relu}";
    return loaded("train: {model: layers, layers: [" + layers + ", {kind: dense, out: 10}]}");
  };
  const std::vector<std::string> received = settings(deep("8"));
  for (const std::string& setting : received) CHECK(setting.size() < 4096);
  CHECK(differing_settings(received, settings(deep("8"))).empty());
  CHECK_THAT(differing_settings(received, settings(deep("9"))), Contains("train.layers: got "));
}

TEST_CASE("the_fingerprint_tells_apart_what_daemons_must_agree_on_and_nothing_else") {
  const std::string base = "cluster: {nodes: 2}";
  const std::uint64_t expected = fingerprint(loaded(base));
  for (const char* same :
       {"run.out=/elsewhere", "run.name=other", "run.log_level=debug", "run.tensorboard=true",
        "run.trace=true", "run.http=localhost:8080", "run.straggler_warning=0.5", "data.path=/elsewhere",
        "cluster.endpoints=[ipc:///tmp/y]", "cluster.lease=1m", "cluster.frame_bytes=1MiB",
        "data.loader_threads=2", "sync.policy=bsp"}) {
    INFO(same);
    CHECK(fingerprint(loaded(base, {same})) == expected);
  }
  const std::string paced = base + "\nemulate: {base_step: 1s}";
  CHECK(fingerprint(loaded(paced, {"emulate.cores=9"})) == fingerprint(loaded(paced)));
  for (const char* other :
       {"run.seed=2", "cluster.nodes=3", "cluster.threads_per_node=2", "sync.policy=ssp", "sync.combine=each",
        "train.batch_size=64", "train.optimizer.lr=0.02", "data.augment=true", "run.max_seconds=1h",
        "train.optimizer.schedule.warmup_versions=1", "cluster.gradient_encoding=int8",
        "cluster.parameter_encoding=fp16"}) {
    INFO(other);
    CHECK(fingerprint(loaded(base, {other})) != expected);
  }
  const std::string on_gpus = base + "\ntrain: {device: cuda}";
  CHECK(fingerprint(loaded(on_gpus)) != expected);
  for (const char* same : {"train.devices=[1]", "data.on_device=off"}) {
    INFO(same);
    CHECK(fingerprint(loaded(on_gpus, {same})) == fingerprint(loaded(on_gpus)));
  }
  const std::string emulated = base + "\nemulate: {base_step: 1s, jitter: uniform}";
  CHECK(fingerprint(loaded(emulated)) != expected);
  for (const char* other : {"emulate.base_step=2s", "emulate.slowdown=[1, 2]", "emulate.jitter=lognormal",
                            "emulate.jitter_spread=0.3"}) {
    INFO(other);
    CHECK(fingerprint(loaded(emulated, {other})) != fingerprint(loaded(emulated)));
  }
}

}  // namespace
}  // namespace paceline
