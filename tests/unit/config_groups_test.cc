// What nodes that compute or sum together, and large mini-batches, do not go with: refused at a key that was given.
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
           {"train.batch_balance=speed", "train.batch_balance: "},
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
      Catch::Contains("exchange.algorithm: halves need a power of two, got halving_doubling with 3"));
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
           {"cluster.parameter_encoding=fp16",
            "cluster.parameter_encoding: a part of the parameters is sent"},
           {"train.total_iterations=41", "train.total_iterations: every stage takes part in every step"},
           {"train.share=pool", "train.share: every stage takes part in every step"},
           {"cluster.nodes={min: 2, max: 4}",
            "cluster.nodes: every node is needed, got {min: 2, max: 4} with pipeline.stages, expected a "
            "number"},
           {"train.accumulate=2", "train.accumulate: micro-batches are a pipeline's parts"},
           {"train.on_nan=skip", "train.on_nan: "},
           {"train.batch_balance=speed", "train.batch_balance: "},
           {"train.precision=bf16", "train.precision: a stage computes in float32, got bf16"},
           {"data.parts=fixed", "data.parts: stages have the mini-batch in common"},
           {"train.device=cuda", "train.device: a stage is computed in the host's memory"},
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
  CHECK_THAT(
      in_chunks("pipeline.chunks=3"),
      Catch::Contains("pipeline.stages: the network cannot be cut so, got 6 chunks, expected at most 4, "));
  CHECK_THAT(
      in_chunks("pipeline.micro_batches=15"),
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
  CHECK_THAT(refusal(groups + ", checkpoint: {every_clocks: 5}}", {"sync.policy=asp"}),
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
      Catch::Contains("pipeline.micro_batches: batch_norm needs more than one value of a channel, got "
                      "micro-batches of 1 at layer bn1"));
  // A network that no worker has the memory for, alone, but four stages have.
  const std::string small =
      "{cluster: {nodes: 4}, train: {total_iterations: 40, batch_size: 64}, pipeline: {memory: 8MiB}}";
  CHECK_THAT(refusal(small, {}),
             Catch::Contains("pipeline.memory: no worker holds the network, got a network in one piece "
                             "that needs "));
  const std::vector<std::string> in_stages = {"pipeline.stages=4", "pipeline.balance=memory",
                                              "pipeline.micro_batches=64", "pipeline.rematerialize=auto",
                                              "pipeline.schedule=1f1b"};
  CHECK(parse_config(small, "run.yaml", in_stages).status().message() == "");
  CHECK_THAT(refusal("{cluster: {nodes: 8}, train: {total_iterations: 40}, pipeline: {stages: 8}}", {}),
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
      Catch::Contains("each update of another stage would count as one that a gradient has missed"));
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
           {"exchange.kind=allreduce",
            "train.batch_norm_group: no group goes on without one of its members, got exchange.on_loss: "
            "go_on"},
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
           {{"train.accumulate=65"}, "command line: train.accumulate: more parts than samples"}}) {
    CHECK_THAT(refusal(good, bad.given), StartsWith(bad.start));
  }
  const std::vector<std::string> on_gpus = {"train.device=cuda", "train.accumulate=2"};
  CHECK(parse_config(good, "run.yaml", on_gpus).status().message() == "");
}

TEST_CASE("a_mini_batch_in_parts_whose_norms_would_measure_one_value_is_refused") {
  const std::string of_vectors =
      "train: {model: layers, layers: [{kind: flatten}, {kind: batch_norm}, {kind: dense, out: 10}]}";
  const std::vector<std::string> four_of_one = {"train.batch_size=4", "train.accumulate=4"};
  CHECK_THAT(refusal(of_vectors, four_of_one),
             StartsWith("command line: train.accumulate: a part of one value a channel, which a batch_norm "
                        "cannot measure, got 4 parts of 4 samples"));
  CHECK_THAT(refusal(of_vectors, {"train.batch_size=5", "train.accumulate=4"}),
             Catch::Contains("a part of one"));
  const std::vector<std::string> three_of_two = {"train.batch_size=6", "train.accumulate=4"};
  CHECK(parse_config(of_vectors, "run.yaml", three_of_two).status().message() == "");
  CHECK(parse_config("train: {model: resnet20}", "run.yaml", four_of_one).status().message() == "");
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

}  // namespace
}  // namespace paceline
