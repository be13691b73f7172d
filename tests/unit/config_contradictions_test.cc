// Keys that are each well by themselves and not together, or that nobody reads: refused at one that was
// given.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Matchers::StartsWith;
using testing::refusal;

TEST_CASE("what_an_all_reduce_does_not_go_with_is_refused") {
  const std::string good =
      "{cluster: {nodes: 4}, train: {total_iterations: 40}, exchange: {kind: allreduce, algorithm: torus, "
      "grid: [2, 2]}}";
  CHECK(parse_config(good, "run.yaml", {}).status().message() == "");
  CHECK(parse_config(good, "run.yaml", std::vector<std::string>{"checkpoint.every_clocks=5"})
            .status()
            .message() == "");
  CHECK(parse_config(good, "run.yaml", std::vector<std::string>{"cluster.gradient_encoding=bf16"})
            .status()
            .message() == "");
  struct Case {
    const char* given;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {"sync.policy=ssp",
            "sync.policy: an all-reduce waits for every worker, got ssp with exchange.kind"},
           {"sync.policy=asp",
            "sync.policy: an all-reduce waits for every worker, got asp with exchange.kind"},
           {"sync.combine=each", "sync.combine: "},
           {"cluster.nodes=1028", "cluster.nodes: each node plans for all, got 1028 with"},
           {"cluster.reconnect_timeout=5s", "cluster.reconnect_timeout: "},
           {"cluster.gradient_encoding=int8", "cluster.gradient_encoding: a sum is not to lose"},
           {"cluster.parameter_encoding=bf16", "cluster.parameter_encoding: no worker takes parameters"},
           {"cluster.apply_threads=2", "cluster.apply_threads: no server applies a gradient"},
           {"cluster.shared_memory=on",
            "cluster.shared_memory: nodes share memory where they are on one machine, and else send, got on "
            "with"},
           {"train.total_iterations=41", "train.total_iterations: every worker takes part in every step"},
           {"train.on_nan=skip", "train.on_nan: "},
           {"train.batch_balance=speed", "train.batch_balance: "},
           {"train.device=cuda", "train.device: "},
           {"exchange.grid=[3, 2]",
            "exchange.grid: a grid that does not fit, got 3 x 2, expected [rows, columns] with rows x "
            "columns = 4 nodes"},
           {"exchange.grid=[4]", "exchange.grid: a grid that does not fit, got 4, "},
           {"exchange.algorithm=ring", "exchange.grid: nobody reads it"},
           {"exchange.kind=server", "exchange.algorithm: nobody reads it"},
           {"exchange.hidden=true", "exchange.hidden: a sum waits for every node"},
           {"exchange.bucket_bytes=0", "exchange.bucket_bytes: "}}) {
    CHECK_THAT(refusal(good, {bad.given}), Catch::Contains(bad.start));
  }
  CHECK_THAT(refusal(good, {"exchange.shard_optimizer=true", "train.optimizer.kind=lars"}),
             Catch::Contains(
                 "train.optimizer.kind: a tensor that is measured whole lies on several nodes, got "
                 "lars with exchange.shard_optimizer"));
  CHECK_THAT(refusal(good, {"exchange.shard_optimizer=true", "exchange.algorithm=tree", "exchange.grid=[]"}),
             Catch::Contains("exchange.algorithm: node 0 sums everything, got tree"));
  CHECK_THAT(refusal(good, {"exchange.measured=/tmp/table"}),
             Catch::Contains("exchange.measured: nobody reads it"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 2, shards: 2, endpoints: ['tcp://localhost:1', 'tcp://localhost:2']}, "
              "train: {total_iterations: 40}, exchange: {kind: allreduce}}",
              {}),
      Catch::Contains("cluster.shards: no gradient goes to a server, got 2 with"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 3}, train: {total_iterations: 30}, exchange: {kind: allreduce, algorithm: "
              "halving_doubling}}"),
      Catch::Contains(
          "exchange.algorithm: halves need a power of two, got halving_doubling with 3"));
}

TEST_CASE("what_a_pipeline_does_not_go_with_is_refused") {
  const std::string good =
      "{cluster: {nodes: 4}, train: {total_iterations: 40, batch_size: 8}, pipeline: {stages: 2, "
      "micro_batches: "
      "16, schedule: 1f1b, rematerialize: on, balance: [5, 5]}}";
  CHECK(parse_config(good, "run.yaml", {}).status().message() == "");
  const std::vector<std::string> other = {"sync.combine=mean", "pipeline.balance=memory",
                                          "cluster.gradient_encoding=int8"};
  CHECK(parse_config(good, "run.yaml", other).status().message() == "");
  struct Case {
    const char* given;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {"pipeline.stages=3",
            "pipeline.stages: groups of as many nodes as stages, got 3 stages for 4 nodes"},
           {"pipeline.micro_batches=17",
            "pipeline.micro_batches: micro-batches without samples, got 17, expected at most 16"},
           {"pipeline.balance=[4, 4]",
            "pipeline.balance: the network cannot be cut so, got 2 stages of 8 layers, expected 2 of 10"},
           {"pipeline.balance=[9]",
            "pipeline.balance: the network cannot be cut so, got 1 stages of 9 layers"},
           {"pipeline.balance=[]", "pipeline.balance: an empty list"},
           {"pipeline.balance=speed", "pipeline.balance: unknown choice"},
           {"pipeline.stages=1", "pipeline.micro_batches: nobody reads it"},
           {"pipeline.chunks=3", "pipeline.chunks: nobody reads it"},
           {"pipeline.schedule=interleaved",
            "pipeline.balance: the network cannot be cut so, got 2 chunks of 10 layers, expected 4 of 10"},
           {"exchange.kind=allreduce",
            "pipeline.stages: no group goes on without one of its stages, got exchange.on_loss: go_on with "
            "pipeline.stages, expected stop"},
           {"cluster.threads_per_node=2", "cluster.threads_per_node: a stage is a node"},
           {"cluster.gradient_encoding=top_k", "cluster.gradient_encoding: top_k without its share"},
           {"cluster.parameter_encoding=fp16", "cluster.parameter_encoding: a part of the parameters is sent"},
           {"train.total_iterations=41", "train.total_iterations: every stage takes part in every step"},
           {"train.share=pool", "train.share: every stage takes part in every step"},
           {"cluster.nodes={min: 2, max: 4}",
            "cluster.nodes: every node is needed, got {min: 2, max: 4} with pipeline.stages, expected a number"},
           {"train.accumulate=2", "train.accumulate: micro-batches are a pipeline's parts"},
           {"train.on_nan=skip", "train.on_nan: "},
           {"train.batch_balance=speed", "train.batch_balance: "},
           {"train.precision=bf16", "train.precision: a stage computes in float32, got bf16"},
           {"data.parts=fixed", "data.parts: stages have the mini-batch in common"},
           {"train.device=cuda", "train.device: "},
           {"sync.policy=backup", "sync.policy: a group's gradient counts whole, got backup"},
           {"pipeline.rematerialize=auto", "pipeline.rematerialize: nothing says how much memory there is"},
           {"pipeline.memory=1MiB", "pipeline.memory: no node holds its stage, got stage 1 that needs "}}) {
    CHECK_THAT(refusal(good, {bad.given}), Catch::Contains(bad.start));
  }
  const auto in_chunks = [&](const char* given) {
    return refusal(good, {"pipeline.schedule=interleaved", "pipeline.balance=time", given});
  };
  const std::vector<std::string> four = {"pipeline.schedule=interleaved", "pipeline.balance=time"};
  CHECK(parse_config(good, "run.yaml", four).status().message() == "");
  CHECK_THAT(in_chunks("pipeline.chunks=3"),
             Catch::Contains("pipeline.stages: the network cannot be cut so, got 6 chunks, expected at most 4, "));
  CHECK_THAT(in_chunks("pipeline.micro_batches=15"),
             Catch::Contains("pipeline.micro_batches: interleaved takes as many through each chunk in turn, got "
                             "15, expected a multiple of 2 stages"));
  CHECK_THAT(in_chunks("pipeline.balance=loop"),
             Catch::Contains("pipeline.schedule: a loop's process has one part of its model"));
  // Those who sum are the nodes of a stage, one of each group.
  const std::string summing =
      "{cluster: {nodes: 6}, train: {total_iterations: 60}, pipeline: {stages: 2}, "
      "exchange: {kind: allreduce, on_loss: stop}}";
  CHECK(parse_config(summing, "run.yaml", {}).status().message() == "");
  const std::vector<std::string> rounded = {"cluster.gradient_encoding=bf16"};
  CHECK(parse_config(summing, "run.yaml", rounded).status().message() == "");
  CHECK_THAT(refusal(summing, {"cluster.gradient_encoding=int8"}),
             Catch::Contains("cluster.gradient_encoding: a sum is not to lose what one node leaves out"));
  CHECK_THAT(refusal(summing, {"exchange.algorithm=halving_doubling"}),
             Catch::Contains("halves need a power of two, got halving_doubling with 3"));
  CHECK_THAT(refusal(summing, {"exchange.algorithm=torus", "exchange.grid=[2, 3]"}),
             Catch::Contains("a grid that does not fit, got 2 x 3"));
  const std::string groups =
      "{cluster: {nodes: 4}, train: {total_iterations: 40, optimizer: {kind: sgd}}, sync: {combine: each}, "
      "pipeline: "
      "{stages: 2}";
  for (const char* policy : {"sync.policy=ssp", "sync.policy=dtssp", "sync.policy=dssp", "sync.policy=asp"}) {
    const std::vector<std::string> given = {policy};
    CHECK(parse_config(groups + "}", "run.yaml", given).status().message() == "");
  }
  CHECK_THAT(
      refusal(groups + ", checkpoint: {every_clocks: 5}}", {"sync.policy=asp"}),
      Catch::Contains("checkpoint.every_clocks: a checkpoint is of one clock of all stages"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 2}, train: {total_iterations: 40}, pipeline: {stages: 2, balance: loop, "
              "memory: 1GiB}}",
              {}),
      Catch::Contains("pipeline.memory: what a loop's own model takes is not known"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 2}, train: {total_iterations: 40, batch_size: 4, model: layers, layers: "
              "[{kind: flatten}, {kind: batch_norm}, {kind: dense, out: 10}]}, pipeline: {stages: 2, "
              "micro_batches: 8}}",
              {}),
      Catch::Contains(
          "pipeline.micro_batches: batch_norm needs more than one value of a channel, got "
          "micro-batches of 1 at layer bn1"));
  // A network that no worker has the memory for, alone, but four stages have.
  const std::string small =
      "{cluster: {nodes: 4}, train: {total_iterations: 40, batch_size: 64}, pipeline: {memory: 8MiB}}";
  CHECK_THAT(
      refusal(small, {}),
      Catch::Contains("pipeline.memory: no worker holds the network, got a network in one piece "
                                "that needs "));
  const std::vector<std::string> in_stages = {"pipeline.stages=4", "pipeline.balance=memory",
                                              "pipeline.micro_batches=64", "pipeline.rematerialize=auto",
                                              "pipeline.schedule=1f1b"};
  CHECK(parse_config(small, "run.yaml", in_stages).status().message() == "");
  CHECK_THAT(
      refusal("{cluster: {nodes: 8}, train: {total_iterations: 40}, pipeline: {stages: 8}}", {}),
      Catch::Contains("pipeline.stages: the network cannot be cut so, got 8 stages, expected at "
                                "most "));
  CHECK_THAT(
      refusal("{cluster: {nodes: 3}, train: {total_iterations: 30}, pipeline: {stages: 3, balance: [1, 1, "
              "8]}}",
              {}),
      Catch::Contains("pipeline.balance: the network cannot be cut so, got stage 1 without "
                                "parameters"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 2}, train: {total_iterations: 40, optimizer: {kind: adam}}, sync: {policy: "
              "bsp, combine: each}, pipeline: {stages: 2}}",
              {}),
      Catch::Contains("each stage's gradient would step the others' parameters"));
  CHECK_THAT(
      refusal(
          "{cluster: {nodes: 2}, train: {total_iterations: 40, optimizer: {kind: sgd, staleness: inverse}}, "
          "sync: {policy: asp}, pipeline: {stages: 2}}",
          {}),
      Catch::Matchers::Contains(
          "each update of another stage would count as one that a gradient has missed"));
  CHECK_THAT(
      refusal("{cluster: {nodes: 2}, train: {model: resnet20, total_iterations: 40, optimizer: {kind: sgd}}, "
              "sync: {policy: bsp, combine: each}, pipeline: {stages: 2}}",
              {}),
      Catch::Contains("each stage's gradient would draw the others' running statistics to 0"));
}

TEST_CASE("what_a_batch_norm_over_groups_does_not_go_with_is_refused") {
  const std::string good =
      "{cluster: {nodes: 4}, train: {model: resnet20, total_iterations: 40, batch_norm_group: 2}}";
  CHECK(parse_config(good, "run.yaml", {}).status().message() == "");
  struct Case {
    const char* given;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {"train.batch_norm_group=3",
            "train.batch_norm_group: a group that does not divide the nodes, got 3 for 4 nodes"},
           {"train.batch_norm_group=0", "train.batch_norm_group: "},
           {"train.model=cifar_cnn", "train.model: a network without batch_norm"},
           {"sync.policy=ssp", "sync.policy: members compute at the same clock, got ssp"},
           {"cluster.threads_per_node=2", "cluster.threads_per_node: a member is a node"},
           {"train.accumulate=2", "train.accumulate: a mini-batch in parts has statistics of parts"},
           {"train.total_iterations=41", "train.total_iterations: every member takes part in every step"},
           {"train.batch_balance=speed", "train.batch_balance: members wait for each other"},
           {"train.on_nan=skip", "train.on_nan: a group's gradient counts whole"},
           {"exchange.kind=allreduce", "train.batch_norm_group: no group goes on without one of its members, got exchange.on_loss: go_on"},
           {"emulate.base_step=10ms", "emulate.base_step: a step waits for the other members"},
           {"cluster.reconnect_timeout=5s", "cluster.reconnect_timeout: nodes do not connect"}}) {
    CHECK_THAT(refusal(good, {bad.given}), Catch::Contains(bad.start));
  }
}

TEST_CASE("what_large_mini_batches_do_not_go_with_is_refused_by_file_line_and_key") {
  const std::string good =
      "train:\n  total_iterations: 100\n  batch_size: 64\n  optimizer:\n    kind: lars\n    weight_decay: "
      "0.1\n"
      "    schedule: {scale: linear, base_batch: 32, warmup_versions: 10}\n";
  const auto config = parse_config(good, "run.yaml", {});
  REQUIRE(config.status().message() == "");
  CHECK(config->train.optimizer.momentum_form == MomentumForm::kInside);
  CHECK(config->train.optimizer.decay == TensorsOf::kWeights);
  CHECK(config->train.optimizer.schedule.scale_factor == 2.0);
  struct Case {
    std::vector<std::string> given;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {{"sync.combine=each"},
            "run.yaml:5: train.optimizer.kind: it adapts to the gradient of the whole"},
           {{"sync.combine=each", "train.optimizer.kind=lamb"}, "command line: train.optimizer.kind: "},
           {{"sync.policy=asp"}, "run.yaml:5: train.optimizer.kind: it adapts"},
           {{"train.device=cuda", "sync.policy=ssp"}, "run.yaml:5: train.optimizer.kind: a worker's GPU"},
           {{"train.local_steps=2", "train.inner_optimizer.kind=sgd", "train.optimizer.schedule.scale=none",
             "train.optimizer.schedule.base_batch=null"},
            "run.yaml:5: train.optimizer.kind: it adapts to gradients"},
           {{"train.local_steps=2", "train.inner_optimizer.kind=sgd"},
            "run.yaml:7: train.optimizer.schedule.scale: the rate of deltas"},
           {{"train.optimizer.staleness=inverse", "sync.policy=ssp"},
            "command line: train.optimizer.staleness: its step does not depend"},
           {{"train.optimizer.decoupled=true"}, "command line: train.optimizer.decoupled: nobody reads it"},
           {{"train.optimizer.kind=sgd", "train.optimizer.trust=all"},
            "command line: train.optimizer.trust: nobody reads it"},
           {{"train.total_iterations=9"},
            "run.yaml:7: train.optimizer.schedule.warmup_versions: the warm-up is longer than the run, got "
            "10 of 9"},
           {{"train.optimizer.schedule.base_batch=0"}, "command line: train.optimizer.schedule.base_batch: "},
           {{"train.optimizer.schedule.scale=none"},
            "run.yaml:7: train.optimizer.schedule.base_batch: nobody reads it"},
           {{"train.optimizer.schedule.warmup=constant", "train.optimizer.schedule.scale=none",
             "train.optimizer.schedule.base_batch=null"},
            "command line: train.optimizer.schedule.warmup: a constant warm-up needs a rate"},
           {{"train.label_smoothing=1"}, "command line: train.label_smoothing: "},
           {{"train.accumulate=65"}, "command line: train.accumulate: more parts than samples"},
           {{"train.accumulate=2", "train.device=cuda"}, "command line: train.accumulate: a GPU computes"}}) {
    CHECK_THAT(refusal(good, bad.given), StartsWith(bad.start));
  }
  const std::vector<std::string> on_gpus = {"train.device=cuda"};
  CHECK(parse_config(good, "run.yaml", on_gpus).status().message() == "");
}

// What was resolved is said in the effective configuration, and means the same when that is read again.
TEST_CASE("the_scale_of_a_rate_follows_who_takes_a_step_together") {
  const std::string text =
      "cluster: {nodes: 4}\ntrain: {batch_size: 64, total_iterations: 400, optimizer: {kind: momentum, "
      "schedule: "
      "{scale: root, base_batch: 64}}}\n";
  const auto factor = [&](const std::vector<std::string>& given) {
    const auto config = parse_config(text, "run.yaml", given);
    REQUIRE(config.status().message() == "");
    return config->train.optimizer.schedule.scale_factor;
  };
  CHECK(factor({}) == 2.0);
  CHECK(factor({"train.optimizer.schedule.scale=linear"}) == 4.0);
  CHECK(factor({"sync.policy=asp"}) == 1.0);
  CHECK(factor({"sync.policy=backup", "sync.backup_workers=3"}) == 1.0);
}

TEST_CASE("contradictions_are_refused_at_a_key_that_was_given") {
  struct Case {
    const char* text;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {"sync: {policy: dtssp, threshold: 5, threshold_min: 9, threshold_max: 4}",
            "sync.threshold_min: "},
           {"sync: {policy: dtssp, threshold: 11}", "sync.threshold: the initial threshold is outside"},
           {"sync: {policy: dtssp, threshold_min: 5}",
            "sync.threshold_min: the initial threshold is outside"},
           {"sync: {policy: dtssp, lpr: {increase_above: -6}}", "sync.lpr.increase_above: "},
           {"sync: {policy: bsp, threshold: 0}", "sync.threshold: policy bsp does not use it"},
           {"sync: {policy: asp, threshold: 3}", "sync.threshold: policy asp does not use it"},
           {"sync: {policy: ssp, threshold_max: 3}", "sync.threshold_max: policy ssp does not use it"},
           {"sync: {policy: switch}", "sync.policy: nothing to switch between"},
           {"sync: {policy: switch, stages: [{policy: bsp}]}", "sync.stages: nothing to switch between"},
           {"sync: {policy: switch, stages: [{policy: bsp}, {policy: ssp}]}",
            "sync.stages[0]: a stage that never ends"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {version: 1}}, {policy: ssp, until: "
            "{version: 2}}]}",
            "sync.stages[1]: nothing follows the last stage"},
           {"sync: {policy: switch, apply: eager, stages: [{policy: bsp, until: {progress: 0.5}}, {policy: "
            "asp}]}",
            "sync.apply: bsp is exact only version by version"},
           {"sync: {policy: switch, apply: versioned, stages: [{policy: asp, until: {progress: 0.5}}, "
            "{policy: ssp}]}",
            "sync.apply: asp would hold gradients"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {progress: 0.5}}, {policy: asp, apply: "
            "versioned}]}",
            "sync.stages[1]: asp would hold gradients"},
           {"sync: {policy: switch, stages: [{policy: bsp, apply: eager, until: {progress: 0.5}}, {policy: "
            "asp}]}",
            "sync.stages[0]: bsp is exact only version by version"},
           {"sync: {policy: switch, apply: versioned, stages: [{policy: ssp, apply: eager, until: {version: "
            "2}}, {policy: asp}]}",
            "sync.stages[0]: two answers for the first stage"},
           {"sync: {policy: switch, stages: [{policy: asp, until: {version: 2}}, {policy: bsp}]}",
            "sync.stages[1]: what was applied on arrival has no clock's turn any more"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {version: 1}}, {policy: asp, until: "
            "{version: 2}}, {policy: ssp, apply: versioned}]}",
            "sync.stages[2]: what was applied on arrival has no clock's turn any more"},
           {"{sync: {policy: switch, stages: [{policy: bsp, until: {progress: 0.5}}, {policy: asp}]}, "
            "train: {batch_balance: speed}}",
            "train.batch_balance: a stage that is eager averages nothing"},
           {"sync: {policy: switch, refresh_clocks: null, stages: [{policy: ssp, until: {version: 2}}, "
            "{policy: asp}]}",
            "sync.refresh_clocks: under asp nothing is ever required"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {version: 5}}, {policy: ssp, until: "
            "{version: 5}}, "
            "{policy: ssp}]}",
            "sync.stages[1]: a stage that is over when it begins"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {iterations: 1000}}, {policy: ssp}]}",
            "sync.stages[0]: the next stage would never begin"},
           // Four workers: 20 versions, and the last policy to take over does so at version 19.
           {"{cluster: {nodes: 4}, train: {total_iterations: 80}, sync: {policy: switch, stages: [{policy: "
            "bsp, "
            "until: {version: 20}}, {policy: ssp}]}}",
            "sync.stages[0]: the next stage would never begin"},
           {"{cluster: {nodes: 4}, train: {total_iterations: 78}, sync: {policy: switch, stages: [{policy: "
            "bsp, "
            "until: {iterations: 77}}, {policy: ssp}]}}",
            "sync.stages[0]: the next stage would never begin"},
           {"{cluster: {nodes: 4}, train: {total_iterations: 80}, sync: {policy: switch, stages: [{policy: "
            "bsp, "
            "until: {progress: 0.96}}, {policy: ssp}]}}",
            "sync.stages[0]: the next stage would never begin"},
           {"{train: {total_iterations: 80, share: pool}, sync: {policy: switch, stages: [{policy: bsp, "
            "until: "
            "{progress: 0.998}}, {policy: ssp}]}}",
            "sync.stages[0]: the next stage would never begin"},
           {"{train: {total_iterations: 320}, sync: {policy: switch, stages: [{policy: bsp, until: "
            "{iterations: "
            "300}}, {policy: ssp, until: {progress: 0.5}}, {policy: ssp}]}}",
            "sync.stages[1]: a stage that is over when it begins"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {version: 5}}, {policy: dtssp, threshold: "
            "11}]}",
            "sync.stages[1]: the initial threshold is outside"},
           {"sync: {policy: switch, threshold: 3, stages: [{policy: bsp, until: {version: 5}}, {policy: "
            "ssp}]}",
            "sync.threshold: policy switch does not use it"},
           {"sync: {policy: ssp, stages: [{policy: bsp, until: {version: 5}}, {policy: ssp}]}",
            "sync.stages: policy ssp does not use it"},
           {"sync: {policy: dssp, threshold: 3}", "sync.threshold: policy dssp does not use it"},
           {"train: {batch_balance: speed, share: pool}",
            "train.batch_balance: a pool evens speeds out itself"},
           {"sync: {combine: each}\ntrain: {batch_balance: speed}",
            "train.batch_balance: unequal mini-batches"},
           {"sync: {policy: asp}\ntrain: {batch_balance: speed}",
            "train.batch_balance: unequal mini-batches"},
           {"sync: {policy: backup, backup_workers: 0}\ntrain: {batch_balance: speed}",
            "train.batch_balance: the speed of who is dropped"},
           {"train: {batch_balance: speed, batch_size: 100}",
            "train.batch_size: mini-batches change in steps of 8"},
           {"train: {batch_balance: fair}", "train.batch_balance"},
           {"train: {share: pool}\ndata: {parts: fixed}",
            "data.parts: a pool gives a mini-batch to whoever comes first, got fixed with share: pool, "
            "expected share: even, or parts: anew"},
           {"train: {batch_balance: speed}\ndata: {parts: fixed}",
            "data.parts: a clock's samples are cut anew again and again"},
           {"data: {parts: fixed}\ncluster: {nodes: {min: 2, max: 8}}",
            "cluster.nodes: a part for each node needs to know how many there are, got {min: 2, max: 8}"},
           {"sync: {policy: backup, threshold: 3}", "sync.threshold: policy backup does not use it"},
           {"sync: {policy: bsp, backup_workers: 1}", "sync.backup_workers: policy bsp does not use it"},
           {"sync: {policy: backup, backup_workers: -1}", "sync.backup_workers: out of range"},
           {"cluster: {nodes: 2, threads_per_node: 2}\nsync: {policy: backup, backup_workers: 4}",
            "sync.backup_workers: no gradient would be waited for, got 4 of 4 workers"},
           {"sync: {policy: backup}\ncluster: {nodes: 2, gradient_encoding: int8}",
            "cluster.gradient_encoding: what is still owed of gradients that count would be dropped"},
           {"sync: {policy: backup}\ncluster: {nodes: 2, gradient_encoding: top_k, top_k_share: 0.1}",
            "cluster.gradient_encoding: what is still owed of gradients that count would be dropped"},
           {"sync: {policy: backup}\ncluster: {nodes: {min: 2, max: 8}}",
            "cluster.nodes: with backup workers nobody comes later, got {min: 2, max: 8}"},
           {"train: {batch_balance: speed}\ncluster: {nodes: {min: 2, max: 8}}",
            "cluster.nodes: the samples of each clock are cut for all workers of the run"},
           {"sync: {policy: backup, apply: eager}",
            "sync.apply: what is applied on arrival is late for nothing"},
           {"sync: {policy: switch, stages: [{policy: backup, until: {version: 5}}, {policy: ssp}]}",
            "sync.stages[0].policy"},
           {"sync: {policy: dssp, threshold_min: 5, threshold_max: 4}",
            "sync.threshold_min: threshold_min > threshold_max"},
           {"sync: {policy: dssp, threshold_min: 3, threshold_max: 1004}",
            "sync.threshold_min: a range that dssp would look through"},
           {"sync: {policy: dssp, threshold_max: 1004}",
            "sync.threshold_max: a range that dssp would look through"},
           {"sync: {policy: switch, stages: [{policy: bsp, until: {version: 5}}, {policy: dssp, "
            "threshold_max: 1004}]}",
            "sync.stages[1]: a range that dssp would look through"},
           {"sync: {policy: dssp, lpr: {increase_above: 4}}", "sync.lpr.increase_above: nobody reads it"},
           {"sync: {policy: random_walk, lpr: {decrease_below: -4}}",
            "sync.lpr.decrease_below: nobody reads it"},
           {"sync: {policy: ssp, lpr: {increase_above: 4}}", "sync.lpr.increase_above: nobody reads it"},
           {"sync: {policy: switch, lpr: {increase_above: 4}, stages: [{policy: bsp, until: {version: 5}}, "
            "{policy: ssp}]}",
            "sync.lpr.increase_above: nobody reads it"},
           {"sync: {policy: random_walk, threshold: 11}", "sync.threshold: the initial threshold is outside"},
           {"sync: {policy: random_walk, threshold_min: 5, threshold_max: 4}",
            "sync.threshold_min: threshold_min > threshold_max"},
           {"sync: {policy: random_walk, apply: eager, combine: mean}", "sync.combine: "},
           {"sync: {policy: ssp, threshold: inf}", "sync.threshold: a threshold without bound"},
           {"sync: {policy: ssp, threshold: .inf}", "sync.threshold: a threshold without bound"},
           {"sync: {policy: bsp, apply: eager}", "sync.apply: "},
           {"sync: {policy: asp, apply: versioned}", "sync.apply: "},
           {"sync: {policy: ssp, apply: eager, combine: mean}", "sync.combine: "},
           {"sync: {policy: asp, combine: mean}", "sync.combine: "},
           {"sync: {policy: asp, refresh_clocks: null}", "sync.refresh_clocks: "},
           {"sync: {policy: bsp, pull_order: behind}", "sync.pull_order: what is versioned"},
           {"sync: {policy: ssp, pull_order: ahead}", "sync.pull_order: what is versioned"},
           {"cluster: {shards: 2}", "cluster.shards: shards without endpoints"},
           {"cluster: {endpoints: []}", "cluster.endpoints: as many endpoints as shards"},
           {"cluster: {shards: 2, endpoints: [\"tcp://a:1\", \"tcp://a:1\"]}",
            "cluster.endpoints: two shards"},
           {"cluster: {lease: 2s, heartbeat: 1s}", "cluster.lease: "},
           {"cluster: {replicas: 2, endpoints: [\"ipc://a\", \"ipc://b\"]}",
            "cluster.replicas: replicas without anybody who decides"},
           {"cluster: {replicas: 2, etcd: [\"http://a:1\"]}", "cluster.replicas: each replica of each shard"},
           {"cluster: {etcd: [\"http://a:1\"]}", "cluster.etcd: nothing to decide"},
           {"cluster: {replicas: 2, etcd: [\"http://a:1\"], endpoints: [\"ipc://a\", \"ipc://b\"], lease: "
            "1900ms, "
            "heartbeat: 500ms}",
            "cluster.lease: etcd's leases are whole seconds"},
           {"cluster: {top_k_share: 0.1}", "cluster.top_k_share: only top_k keeps a share"},
           {"train: {model: resnet20}\ncluster: {gradient_encoding: int8}",
            "cluster.gradient_encoding: statistics of a batch_norm go with the gradient, got int8, expected "
            "fp32, "
            "fp16 or bf16, or a network without batch_norm"},
           {"train: {model: resnet20, device: cuda, batch_norm_group: 2}\ncluster: {nodes: 2}",
            "train.batch_norm_group: on a GPU a batch_norm goes by its own mini-batch, got 2, expected 1"},
           {"train: {zero_gamma: true}",
            "train.zero_gamma: the network cannot be built, got true, but train.model"},
           {"train: {model: layers, batch_size: 1, layers: [{kind: global_average_pool}, {kind: batch_norm}, "
            "{kind: "
            "dense, out: 10}]}",
            "train.layers[1]: the network cannot be built, got batch_norm: normalises over one value: "
            "batch_size 1"},
           {"cluster: {gradient_encoding: int8, top_k_share: 0.1}", "cluster.top_k_share: only top_k"},
           {"cluster: {gradient_encoding: top_k}", "cluster.gradient_encoding: top_k without its share"},
           {"cluster: {gradient_encoding: top_k, top_k_share: 0.6, frame_bytes: 1MiB}",
            "cluster.top_k_share: a message would be larger than 1MiB"},
           {"cluster: {heartbeat: 5s}", "cluster.heartbeat: "},
           {"run: {target_accuracy: 0.9}", "run.target_accuracy: nobody would evaluate"},
           {"train: {model: layers}", "train.model: model: layers without layers"},
           {"train: {layers: [{kind: dense, out: 10}]}", "train.layers: layers without model: layers"},
           {"train: {model: layers, dropout: 0.1, layers: [{kind: dense, out: 10}]}", "train.dropout: "},
           {"train: {optimizer: {kind: adam, nesterov: true}}", "train.optimizer.nesterov: "},
           {"train: {optimizer: {kind: momentum, momentum: 0, nesterov: true}}",
            "train.optimizer.nesterov: nothing to look ahead by, got nesterov: true with momentum: 0, "
            "expected"},
           {"train: {local_steps: 0}", "train.local_steps: "},
           {"train: {local_time: 0s}", "train.local_time: "},
           {"train: {local_time: 1s}",
            "train.local_time: no round of several mini-batches that it could end"},
           {"emulate: {base_step: 10ms}\ntrain: {local_time: 9ms, local_steps: 10, inner_optimizer: {kind: "
            "sgd}}",
            "train.local_time: shorter than a mini-batch, got 9ms, expected 10ms or more"},
           {"simulate: {compute: {mean: 10ms}}\ntrain: {local_time: 9ms, local_steps: 10, inner_optimizer: "
            "{kind: sgd}}",
            "train.local_time: shorter than a mini-batch, got 9ms, expected 10ms or more"},
           {"train: {local_time: 1s, local_steps: 10, local_balance: speed, inner_optimizer: {kind: sgd}}",
            "train.local_time: rounds end by time, or together"},
           {"train: {warm_start_steps: 5}", "train.warm_start_steps: a warm start without an optimizer"},
           {"exchange: {hidden: true}",
            "exchange.hidden: there is nothing to go on with, got hidden with no inner"},
           {"sync: {policy: bsp}\nexchange: {hidden: true}\ntrain: {local_steps: 10, inner_optimizer: {kind: "
            "sgd}}",
            "exchange.hidden: what is hidden is one round old, got hidden with policy: bsp, threshold 0"},
           {"sync: {policy: asp}\nexchange: {hidden: true}\ntrain: {local_steps: 10, inner_optimizer: {kind: "
            "sgd}}",
            "exchange.hidden: nothing bounds the age of what it computes with, got hidden with asp, expected"},
           {"sync: {policy: switch, combine: mean, stages: [{policy: bsp, until: {version: 10}}, {policy: ssp, "
            "threshold: 0}]}\nexchange: {hidden: true}\ntrain: {local_steps: 10, inner_optimizer: {kind: sgd}}",
            "exchange.hidden: what is hidden is one round old, got hidden with policy: switch"},
           {"exchange: {fragments: 2}",
            "exchange.fragments: there is no round that they could leave in, got 2 with hidden: false"},
           {"sync: {policy: ssp, threshold: 1}\nexchange: {hidden: true, fragments: 11}\ntrain: {local_steps: 10, "
            "inner_optimizer: {kind: sgd}}",
            "exchange.fragments: each leaves behind a local step, got 11 with local_steps: 10, expected at most 10"},
           {"sync: {policy: ssp, threshold: 1}\nexchange: {hidden: true, fragments: 2}\ntrain: {local_steps: 10, "
            "local_time: 1s, inner_optimizer: {kind: sgd}}",
            "exchange.fragments: the end of a round is not known before, got 2 with a local_time"},
           {"sync: {policy: ssp, threshold: 1}\nexchange: {hidden: true, fragments: 2}\ntrain: {local_steps: 10, "
            "local_balance: speed, inner_optimizer: {kind: sgd}}",
            "exchange.fragments: a slow worker's round may have fewer steps than that, got 2 with local_balance: "
            "speed"},
           {"sync: {policy: ssp, threshold: 1}\nexchange: {hidden: true, fragments: 2}\ncluster: {parameter_encoding: "
            "bf16}\ntrain: {local_steps: 10, inner_optimizer: {kind: sgd}}",
            "exchange.fragments: a part of a server's parameters is sent as it is, got 2 with parameter_encoding: "
            "bf16"},
           {"train: {local_steps: 10}",
            "train.local_steps: local steps without an optimizer to take them with, got local_steps: 10, no "
            "inner_optimizer, expected train.inner_optimizer"},
           {"train: {inner_optimizer: {lr: 0.1}}",
            "train.inner_optimizer.lr: an inner optimizer without local steps, got no train.local_steps"},
           {"train: {local_steps: 10, inner_optimizer: {kind: sgd}, optimizer: {kind: momentum}}",
            "train.optimizer.kind: an outer optimizer without a rate, which deltas want another of than gradients, got "
            "kind: momentum, no lr, expected train.optimizer.lr"},
           {"train: {local_steps: 3, inner_optimizer: {kind: sgd}}",
            "train.local_steps: not a whole number of rounds, got 1000 iterations with local_steps: 3"},
           {"train: {local_steps: 10, inner_optimizer: {kind: sgd, momentum: 0.5}}",
            "train.inner_optimizer.momentum: nobody reads it, got 0.5, expected kind: momentum"},
           {"train: {local_steps: 10, inner_optimizer: {kind: momentum, momentum: 0, nesterov: true}}",
            "train.inner_optimizer.nesterov: nothing to look ahead by"},
           {"train: {local_steps: 10, inner_optimizer: {schedule: {kind: step}}}",
            "train.inner_optimizer.schedule.kind: a step schedule without steps"},
           {"train: {local_balance: speed}", "train.local_balance: a round of one mini-batch"},
           {"sync: {policy: asp}\ntrain: {local_steps: 10, inner_optimizer: {kind: sgd}, local_balance: "
            "speed}",
            "train.local_balance: unequal mini-batches are weighted"},
           {"train: {local_steps: 10, batch_balance: speed, inner_optimizer: {kind: sgd}}",
            "train.batch_balance: the mini-batches of a round have one size"},
           {"train: {local_steps: 10, inner_optimizer: {kind: sgd}}\nsync: {policy: ssp, apply: eager, "
            "combine: "
            "mean}",
            "sync.combine: eager applies each gradient on arrival"},
           {"sync: {policy: asp}\ntrain: {local_steps: 10, inner_optimizer: {kind: sgd}, optimizer: "
            "{delay_compensation: {kind: constant}}}",
            "train.optimizer.delay_compensation.kind: delay compensation is of gradients"},
           {"train: {optimizer: {decay: weights}}", "train.optimizer.decay: nobody reads it"},
           {"train: {model: layers, layers: [{kind: dense, out: 10, decay_factor: 0}]}",
            "train.layers[0]: nobody reads decay_factor, got 0, expected a weight_decay above 0"},
           {"train: {optimizer: {weight_decay: 0.1, decay: weights}, model: layers, layers: [{kind: dense, "
            "out: 10, "
            "bias_decay_factor: 1}]}",
            "train.layers[0]: nobody reads the decay of a norm or a bias, got decay: weights, expected "
            "decay: all"},
           {"train: {optimizer: {weight_decay: 0.1, decay: weights}, model: layers, layers: [{kind: "
            "batch_norm, "
            "decay_factor: 1}, {kind: dense, out: 10}]}",
            "train.layers[0]: nobody reads the decay of a norm or a bias, got decay: weights, expected "
            "decay: all"},
           {"train: {device: cuda, model: layers, layers: [{kind: conv, out: 10, kernel: 1}, {kind: relu}, "
            "{kind: concat, name: both, from: [conv1, relu1]}, {kind: dense, out: 10}]}",
            "train.layers[2]: there is no such layer on a GPU, got concat (both), expected device: cpu"},
           {"train: {optimizer: {delay_compensation: {kind: constant}}}",
            "train.optimizer.delay_compensation.kind: each gradient is compensated by itself, got combine: "
            "mean"},
           {"sync: {policy: asp}\ntrain: {optimizer: {kind: adam, delay_compensation: {kind: constant}}}",
            "train.optimizer.delay_compensation.kind: delay compensation is of SGD, got kind: adam"},
           {"sync: {policy: asp}\ntrain: {optimizer: {staleness: inverse, delay_compensation: {kind: "
            "adaptive}}}",
            "train.optimizer.delay_compensation.kind: two answers to the same staleness"},
           {"cluster: {threads_per_node: 2}\ntrain: {optimizer: {delay_compensation: {kind: constant}}}",
            "train.optimizer.delay_compensation.kind: what a node is sent could be"},
           {"cluster: {parameter_encoding: fp16}\ntrain: {optimizer: {delay_compensation: {kind: constant}}}",
            "train.optimizer.delay_compensation.kind: the servers keep what they have"},
           {"train: {optimizer: {delay_compensation: {lambda: 0.1}}}",
            "train.optimizer.delay_compensation.lambda: nobody reads it"},
           {"sync: {policy: asp}\ntrain: {optimizer: {delay_compensation: {kind: constant, decay: 0.1}}}",
            "train.optimizer.delay_compensation.decay: nobody reads it"},
           {"train: {optimizer: {staleness: inverse}}",
            "train.optimizer.staleness: nothing is stale under bsp with combine: mean"},
           {"train: {optimizer: {schedule: {kind: step}}}", "train.optimizer.schedule.kind: a step schedule"},
           {"train: {optimizer: {schedule: {kind: cosine, warmup_versions: 9, total_versions: 9}}}",
            "train.optimizer.schedule.total_versions: "},
           {"train: {total_iterations: 5, optimizer: {schedule: {kind: cosine, warmup_versions: 5}}}",
            "train.optimizer.schedule.warmup_versions: "},
           {"data: {kind: cifar10}", "data.kind: cifar10 without data.path"},
           {"data: {kind: synthetic, path: \"\"}", "data.path: an empty path"},
           {"data: {kind: cifar10, path: \"\"}", "data.path: an empty path"},
           {"data: {path: ~/images}", "data.path: a path from ~, which a shell expands"},
           {"run: {out: \"~/runs\"}", "run.out: a path from ~, which a shell expands"},
           {"data: {kind: cifar10, path: null}", "data.kind: cifar10 without data.path"},
           {"data: {kind: synthetic}", "data.kind: synthetic without data.path"},
           {"cluster: {nodes: 3}\nemulate: {base_step: 1s, slowdown: [1, 2]}", "emulate.slowdown: "},
           {"cluster: {nodes: 3}\nsimulate: {network: {bandwidth: [1GiB, 1GiB]}}",
            "simulate.network.bandwidth: one bandwidth, or one for each node, got 2 bandwidths"},
           {"emulate: {slowdown: [2]}", "emulate.slowdown: a slowdown without emulate.base_step"},
           {"train: {optimizer: {kind: sgd, momentum: 0.5}}",
            "train.optimizer.momentum: nobody reads it, got 0.5, "
            "expected kind: momentum or lars, or no value (null)"},
           {"train: {optimizer: {kind: momentum, beta1: 0.1}}", "train.optimizer.beta1: nobody reads it"},
           {"train: {devices: [0]}", "train.devices: nobody reads it, got [0], expected device: cuda"},
           {"train: {precision: tf32}",
            "train.precision: only a GPU has it, got tf32 with device: cpu, expected fp32 or bf16, or device: cuda"},
           {"train: {precision: fp16, on_nan: skip}", "train.precision: only a GPU has it, got fp16 with device: cpu"},
           {"train: {precision: fp16, device: cuda}",
            "train.on_nan: a step that overflows fp16 is skipped, and its loss scaled less, got stop, expected on_nan: skip"},
           {"train: {precision: fp16, device: cuda, on_nan: skip, local_steps: 2, inner_optimizer: {kind: sgd, lr: 0.1}}",
            "train.precision: a local step that overflows could not be skipped, got fp16"},
           {"data: {on_device: off}",
            "data.on_device: nobody reads it, got off, expected train.device: cuda"},
           {"data: {kind: images}", "data.kind: images without data.path"},
           {"data: {kind: images, path: p, crop: {size: 300}}",
            "data.crop.size: a crop larger than what it is cut from, got size 300 with resize 256"},
           {"data: {kind: images, path: p, mean: [1, 2]}",
            "data.mean: wrong number of values, got 2, expected 3"},
           {"data: {kind: images, path: p, augment: true, crop: {area: [1, 0.5]}}",
            "data.crop.area: from more than to, got [1, 0.5]"},
           {"data: {kind: cifar10, path: p, classes: 5}",
            "data.classes: nobody reads it, got 5, expected kind: images"},
           {"data: {kind: images, path: p, crop: {flip: false}}",
            "data.crop.flip: nobody reads it, got false, expected data.kind: images with data.augment"},
           {"data: {kind: images, path: p, augment: true, crop: {padding: 4}}",
            "data.crop.padding: nobody reads it"},
           {"data: {kind: images, path: p, classes: 12}\n"
            "train: {model: layers, layers: [{kind: flatten}, {kind: dense, out: 10}]}",
            "train.layers[1]: "},
           {"train: {device: cuda, backend: reference}", "train.backend: nobody reads it"},
           {"train: {optimizer: {beta2: 0.1}}", "train.optimizer.beta2: nobody reads it"},
           {"train: {optimizer: {epsilon: 0.1}}", "train.optimizer.epsilon: nobody reads it"},
           {"train: {optimizer: {kind: adam, decoupled: true}}",
            "train.optimizer.decoupled: nobody reads it"},
           {"train: {optimizer: {schedule: {step_factor: 0.5}}}",
            "train.optimizer.schedule.step_factor: nobody"},
           {"train: {optimizer: {schedule: {step_versions: 5}}}",
            "train.optimizer.schedule.step_versions: nobody"},
           {"train: {optimizer: {schedule: {total_versions: 5}}}",
            "train.optimizer.schedule.total_versions: nobody"},
           {"train: {optimizer: {schedule: {final_factor: 0.5}}}",
            "train.optimizer.schedule.final_factor: nobody"},
           {"emulate: {jitter: lognormal}", "emulate.jitter: a jitter without emulate.base_step"},
           {"emulate: {base_step: 1s, jitter_spread: 0.5}", "emulate.jitter_spread: nobody reads it"},
           {"emulate: {jitter: uniform, jitter_spread: 1}", "emulate.jitter_spread: "},
           {"emulate: {jitter: exponential, jitter_spread: 1.5}", "emulate.jitter_spread: "}}) {
    INFO(bad.text);
    const std::string line = refusal(bad.text);
    const std::string where =
        std::string("run.yaml:") + (std::string(bad.text).find('\n') == std::string::npos ? "1" : "2");
    CHECK_THAT(line, StartsWith(where + ": " + bad.start));
  }
}

TEST_CASE("a_key_that_nobody_reads_is_accepted_at_its_default_and_where_emulation_is_switched_off") {
  for (const char* text :
       {"train: {optimizer: {kind: sgd, momentum: 0.9, beta1: 0.9}}",
        "train: {optimizer: {kind: sgd, weight_decay: 0.1, decoupled: true}}",
        "emulate: {base_step: null, jitter: lognormal, jitter_spread: 0.5, slowdown: [2]}"}) {
    INFO(text);
    CHECK(parse_config(text, "run.yaml", {}).is_ok());
  }
}

}  // namespace
}  // namespace paceline
