// Bad input: each fault ends in exactly one line, `file:line: key: what is wrong, got …, expected …`.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/config/load.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using testing::refusal;

TEST_CASE("an_error_says_file_line_key_what_got_and_expected") {
  CHECK(refusal("# a comment\nsync:\n  policy: ssp\n  threshold: three\n") ==
        "run.yaml:4: sync.threshold: wrong type, got \"three\", expected a whole number from 0 to 1000000");
  CHECK(refusal("run: {}", {"cluster.nodes=0"}) ==
        "command line: cluster.nodes: out of range, got \"0\", expected a whole number from 1 to 4096");
}

TEST_CASE("an_error_about_a_text_with_control_characters_is_one_line_too") {
  // What yaml-cpp says of it repeats the line end.
  CHECK_THAT(refusal("run: {out: \"a\\\r\"}\n"),
             StartsWith("run.yaml:1: YAML syntax error, got unknown escape character"));
  CHECK_THAT(refusal("\"sy\\nnc\": {policy: bsp}"), StartsWith("run.yaml:1: sy nc: unknown key"));
  CHECK(refusal("sync: {policy: \"b\\ns\\e[1mp\"}").find_first_of("\r\x1b") == std::string::npos);
}

TEST_CASE("a_number_of_nodes_that_may_grow_is_a_map_with_min_and_max") {
  CHECK(refusal("cluster:\n  threads_per_node: 1\n  nodes: {min: 3, max: 2}\n") ==
        "run.yaml:3: cluster.nodes.min: more than max, got 3, expected 1 to 2");
  CHECK(refusal("cluster:\n  nodes:\n    min: 3\n    max: 2\n") ==
        "run.yaml:3: cluster.nodes.min: more than max, got 3, expected 1 to 2");
  CHECK(refusal("run: {}", {"cluster.nodes={min: 3, max: 2}"}) ==
        "command line: cluster.nodes.min: more than max, got 3, expected 1 to 2");
  const std::string map = "a map such as {min: 2, max: 8}";
  CHECK(refusal("cluster: {nodes: {min: 3}}") ==
        "run.yaml:1: cluster.nodes: missing key, got no max, expected " + map);
  CHECK(refusal("cluster: {nodes: {max: 3}}") ==
        "run.yaml:1: cluster.nodes: missing key, got no min, expected " + map);
  CHECK(refusal("cluster: {nodes: {min: 1, max: 3, mean: 2}}") ==
        "run.yaml:1: cluster.nodes: unknown key, got \"mean\", expected " + map);
  CHECK_THAT(refusal("cluster: {nodes: {min: 0, max: 3}}"), Contains("cluster.nodes.min: out of range"));
  CHECK_THAT(refusal("cluster: {nodes: {min: 1, max: many}}"), Contains("cluster.nodes.max: wrong type"));
}

TEST_CASE("an_unknown_key_is_refused_with_the_likely_one") {
  CHECK_THAT(refusal("sync:\n  treshold: 3\n"), StartsWith("run.yaml:2: sync.treshold: unknown key") &&
                                                    Contains("did you mean sync.threshold?"));
  CHECK_THAT(refusal("train: {lr: 0.1}"), Contains("did you mean train.optimizer.lr?"));
  CHECK_THAT(refusal("snyc: {policy: bsp}"), Contains("did you mean sync?"));
  CHECK_THAT(refusal("run: {}", {"sync.polcy=bsp"}),
             StartsWith("command line: sync.polcy: unknown key") && Contains("did you mean sync.policy?"));
  CHECK_THAT(refusal("xyzzy: 1"), !Contains("did you mean"));
}

TEST_CASE("a_duplicate_key_names_both_lines") {
  CHECK_THAT(refusal("run:\n  seed: 1\n  seed: 2\n"),
             StartsWith("run.yaml:3: run.seed: duplicate key") && Contains("run.yaml:2"));
  CHECK_THAT(refusal("run: {seed: 1}\nsync:\nrun: {seed: 2}\n"),
             StartsWith("run.yaml:3: run: duplicate key"));
}

TEST_CASE("the_form_of_the_text_is_checked") {
  CHECK_THAT(refusal("run:\n  seed: [1, 2\n"), StartsWith("run.yaml:") && Contains("YAML syntax error"));
  CHECK_THAT(refusal("run:\n\tseed: 1\n"), StartsWith("run.yaml:2: YAML syntax error"));
  CHECK_THAT(refusal(""), StartsWith("run.yaml:1: empty configuration"));
  CHECK_THAT(refusal("# only a comment\n"), Contains("empty configuration"));
  CHECK_THAT(refusal("run: {seed: 1}\n---\nrun: {seed: 2}\n"), Contains("more than one document"));
  CHECK_THAT(refusal("run: {seed: 1}\n---\nrun: {seed: 2}\n---\n"), StartsWith("run.yaml:2: more than one"));
  CHECK_THAT(refusal("[1], [2]\n"), Contains("more than one document"));  // without end, to yaml-cpp
  CHECK_THAT(refusal("- run\n- sync\n"), Contains("a list"));
  CHECK_THAT(refusal("run: 3"), StartsWith("run.yaml:1: run: wrong type"));
  CHECK_THAT(refusal("run: {? [a] : 1}"), Contains("not a word"));
}

TEST_CASE("aliases_cannot_make_a_small_text_large") {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 6; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 9; ++j) text += last + ", ";
    text += last + "]\n";
  }
  CHECK_THAT(refusal(text), Contains("too large or too deeply nested"));
  CHECK_THAT(refusal("run: &self {seed: *self}"),
             Contains("YAML syntax error") || Contains("too deeply nested"));
}

TEST_CASE("wrong_types_and_impossible_values_are_refused_key_by_key") {
  struct Case {
    const char* argument;
    const char* what;
  };
  for (const Case& bad :
       std::vector<Case>{{"run.seed=-1", "out of range"},
                         {"run.seed=1.5", "not written as a whole number"},
                         {"train.total_iterations=1e3", "not written as a whole number"},
                         {"train.total_iterations=99999999999999999999", "out of range"},
                         {"run.seed=\"1\"", "wrong type"},
                         {"run.name=a/b", "does not belong in a name"},
                         {"run.name=", "wrong type"},
                         {"run.out=[a]", "wrong type"},
                         {"run.max_seconds=10", "a duration without a unit"},
                         {"run.max_seconds=10 weeks", "not a duration"},
                         {"run.max_seconds=-1s", "out of range"},
                         {"run.max_seconds=99999999999h", "not a duration"},
                         {"run.max_seconds=soon", "wrong type"},
                         {"run.target_accuracy=0", "out of range"},
                         {"run.target_accuracy=80", "out of range"},
                         {"run.log_level=loud", "unknown choice"},
                         {"run.trace=maybe", "wrong type"},
                         {"run.trace_events=999", "out of range"},
                         {"run.trace_events=20000000", "out of range"},
                         {"run.http=8080", "no host or no port"},
                         {"run.http=127.0.0.1:65536", "not a port"},
                         {"run.http=http://127.0.0.1:8080", "an address with a scheme"},
                         {"run.straggler_warning=1", "out of range"},
                         {"run.straggler_warning=0", "out of range"},
                         {"cluster.threads_per_node=0", "out of range"},
                         {"cluster.nodes=99999999999", "out of range"},
                         {"cluster.nodes=null", "wrong type"},
                         {"cluster.endpoints=tcp://a:1", "wrong type"},
                         {"cluster.endpoints=[udp://a:1]", "endpoints[0]: unknown transport"},
                         {"cluster.endpoints=[tcp://a:65536]", "not a port"},
                         {"cluster.endpoints=[tcp://:1]", "no host"},
                         {"cluster.endpoints=[ipc://]", "no path"},
                         {"cluster.etcd=[a:1]", "etcd[0]: another scheme"},
                         {"cluster.etcd=[http://a]", "no host or no port"},
                         {"cluster.etcd_prefix=a/b", "a character that does not belong in a name"},
                         {"cluster.frame_bytes=2MiB", "impossible size"},
                         {"cluster.frame_bytes=1023", "impossible size"},
                         {"cluster.frame_bytes=1MB", "wrong type"},
                         {"cluster.gradient_encoding=fp8", "unknown choice"},
                         {"cluster.parameter_encoding=int8", "unknown choice"},
                         {"cluster.parameter_encoding=top_k", "unknown choice"},
                         {"cluster.top_k_share=0", "out of range"},
                         {"cluster.top_k_share=1.1", "out of range"},
                         {"sync.policy=BSP", "unknown choice"},
                         {"sync.refresh_clocks=0", "out of range"},
                         {"sync.lpr.increase_above=.nan", "not a finite number"},
                         {"sync.lpr.increase_above=inf", "not a finite number"},
                         {"train.optimizer.lr=-.inf", "not a finite number"},
                         {"train.optimizer.lr=nan", "not a finite number"},
                         {"train.optimizer.lr=0", "out of range"},
                         {"train.optimizer.lr=1e999", "wrong type"},
                         {"train.optimizer.beta1=1", "out of range"},
                         {"train.optimizer.nesterov=yes", "wrong type"},
                         {"train.device=gpu", "unknown choice"},
                         {"train.devices=[0, 5000]", "devices[1]: out of range"},
                         {"train.precision=fp16", "unknown choice"},
                         {"train.model=resnet", "unknown choice"},
                         {"train.total_iterations=0", "out of range"},
                         {"train.dropout=1", "out of range"},
                         {"emulate.slowdown=[0]", "slowdown[0]: out of range"},
                         {"emulate.base_step=0s", "out of range"},
                         {"simulate.network.bandwidth=fast", "; or a list of such, one for each"},
                         {"simulate.network.bandwidth=[]", "bandwidth: an empty list"},
                         {"simulate.network.bandwidth=[1GiB, 3]", "bandwidth[1]: impossible size"},
                         {"emulate.jitter_spread=-1", "out of range"},
                         {"sync={policy: bsp}", "a section, not a key"},
                         {"bsp", "not an override"},
                         {"=3", "not an override"},
                         {"run.seed=[1", "YAML syntax error"}}) {
    INFO(bad.argument);
    CHECK_THAT(refusal("run: {}", {bad.argument}), StartsWith("command line: ") && Contains(bad.what));
  }
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
           {"data: {kind: cifar10, path: null}", "data.kind: cifar10 without data.path"},
           {"data: {kind: synthetic}", "data.kind: synthetic without data.path"},
           {"cluster: {nodes: 3}\nemulate: {base_step: 1s, slowdown: [1, 2]}", "emulate.slowdown: "},
           {"cluster: {nodes: 3}\nsimulate: {network: {bandwidth: [1GiB, 1GiB]}}",
            "simulate.network.bandwidth: one bandwidth, or one for each node, got 2 bandwidths"},
           {"emulate: {slowdown: [2]}", "emulate.slowdown: a slowdown without emulate.base_step"},
           {"train: {optimizer: {kind: sgd, momentum: 0.5}}",
            "train.optimizer.momentum: nobody reads it, got 0.5, "
            "expected kind: momentum, or no value (null)"},
           {"train: {optimizer: {kind: momentum, beta1: 0.1}}", "train.optimizer.beta1: nobody reads it"},
           {"train: {devices: [0]}", "train.devices: nobody reads it, got [0], expected device: cuda"},
           {"train: {precision: tf32}", "train.precision: nobody reads it"},
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

TEST_CASE("a_layer_refuses_fields_it_would_not_use_and_misses_those_it_needs") {
  const auto layers = [](const std::string& one) {
    return "train:\n  model: layers\n  layers:\n    - {kind: relu}\n    - " + one + "\n";
  };
  CHECK_THAT(refusal(layers("{kind: relu, out: 3}")),
             StartsWith("run.yaml:5: train.layers[1]: unknown key, got \"out\""));
  CHECK_THAT(refusal(layers("{kind: conv, out: 3}")), Contains("missing key, got no kernel"));
  CHECK_THAT(refusal(layers("{kind: pool, kernel: 0}")), Contains("train.layers[1].kernel: out of range"));
  CHECK_THAT(refusal(layers("{kind: dropout, rate: 1}")), Contains("train.layers[1].rate: out of range"));
  CHECK_THAT(refusal(layers("{kind: lstm}")), Contains("train.layers[1].kind: unknown choice"));
  CHECK_THAT(refusal(layers("{out: 3}")), Contains("missing key kind"));
  CHECK_THAT(refusal(layers("dense")), Contains("wrong type"));
}

TEST_CASE("who_would_go_back_to_bsp_is_told_in_which_order_stages_may_come") {
  CHECK_THAT(
      refusal("sync: {policy: switch, stages: [{policy: asp, until: {progress: 0.5}}, {policy: bsp}]}"),
      Contains("got bsp, which is versioned, after asp with apply: eager, expected stages that are "
               "versioned before those that are eager"));
}

TEST_CASE("a_stage_refuses_parameters_its_policy_does_not_use_and_ends_that_are_none") {
  const auto stages = [](const std::string& one) {
    return "sync:\n  policy: switch\n  stages:\n    - " + one + "\n    - {policy: ssp}\n";
  };
  CHECK_THAT(refusal(stages("{policy: bsp, threshold: 3, until: {version: 5}}")),
             StartsWith("run.yaml:4: sync.stages[0]: unknown key, got \"threshold\""));
  CHECK_THAT(refusal(stages("{policy: ssp, threshold_min: 3, until: {version: 5}}")),
             Contains("expected ssp to have policy, until, threshold"));
  CHECK_THAT(refusal(stages("{policy: switch, until: {version: 5}}")),
             Contains("sync.stages[0].policy: unknown choice"));
  CHECK_THAT(refusal(stages("{until: {version: 5}}")), Contains("missing key, got no policy"));
  CHECK_THAT(refusal(stages("{policy: bsp, until: {version: 5, progress: 0.5}}")),
             Contains("sync.stages[0].until: not one condition"));
  CHECK_THAT(refusal(stages("{policy: bsp, until: 5}")), Contains("sync.stages[0].until: not one condition"));
  CHECK_THAT(refusal(stages("{policy: bsp, until: {epoch: 5}}")),
             Contains("sync.stages[0].until: unknown key, got \"epoch\""));
  CHECK_THAT(refusal(stages("{policy: bsp, until: {progress: 1}}")),
             Contains("sync.stages[0].until.progress: out of range"));
  CHECK_THAT(refusal(stages("{policy: bsp, until: {version: 1.5}}")),
             Contains("sync.stages[0].until.version: "));
  CHECK_THAT(refusal(stages("bsp")), Contains("sync.stages[0]: wrong type"));
}

TEST_CASE("a_network_that_cannot_be_built_is_refused_at_the_line_of_its_layer") {
  const std::string before = "train:\n  model: layers\n  layers:\n    - {kind: pool, kernel: 8}\n";
  CHECK(
      refusal(before + "    - {kind: conv, out: 4, kernel: 9, padding: 0}\n    - {kind: dense, out: 10}\n") ==
      "run.yaml:5: train.layers[1]: the network cannot be built, got conv: kernel 9 is larger than its input "
      "3x4x4 with padding 0, expected layers of which each fits the one before");
  CHECK_THAT(refusal(before + "    - {kind: dense, out: 10}\n    - {kind: conv, out: 4, kernel: 1}\n"),
             StartsWith("run.yaml:6: train.layers[2]: ") && Contains("needs an image"));
  CHECK_THAT(refusal(before + "    - {kind: dense, out: 9}\n"),
             StartsWith("run.yaml:5: train.layers[1]: ") && Contains("dense with out 10"));
  CHECK(
      refusal(before + "    - {kind: dense, out: 70000}\n    - {kind: dense, out: 10}\n") ==
      "run.yaml:5: train.layers[1]: the network cannot be built, got dense: out 70000, expected 1 to 65536");
  CHECK_THAT(refusal("train: {model: layers}", {"train.layers=[{kind: dense, out: 3}]"}),
             StartsWith("command line: train.layers[0]: the network cannot be built"));
}

TEST_CASE("a_missing_file_is_not_found_and_a_folder_is_no_configuration") {
  const Result<RunConfig> missing = load_config("/nonexistent/run.yaml", {});
  CHECK(missing.status().code() == StatusCode::kNotFound);
  CHECK_THAT(missing.status().message(), StartsWith("/nonexistent/run.yaml: ") && Contains("No such file"));
  CHECK_THAT(load_config("/", {}).status().message(), StartsWith("/: ") && Contains("Is a directory"));
}

TEST_CASE("checkpoints_come_by_clocks_or_by_time_and_at_least_one_is_kept") {
  CHECK(refusal("checkpoint: {every_clocks: 10}", {"checkpoint.every=1m"}) ==
        "command line: checkpoint.every: two schedules, got every_clocks: 10 and every: 1m, expected one of "
        "the two");
  CHECK_THAT(
      refusal("checkpoint: {every_clocks: 10, keep: 0}"),
      StartsWith("run.yaml:1: checkpoint.keep: out of range, got \"0\", expected a whole number from 1"));
  CHECK_THAT(refusal("checkpoint: {every_clocks: 0}"), StartsWith("run.yaml:1: checkpoint.every_clocks: "));
  CHECK(refusal("checkpoint: {keep: 3}") ==
        "run.yaml:1: checkpoint.keep: nobody reads it, got 3, expected an every_clocks or every, or no value "
        "(null)");
  CHECK_THAT(refusal("simulate:\n  network:\n    bandwidth: [1GiB,\n      slow]"),
             StartsWith("run.yaml:4: simulate.network.bandwidth[1]: wrong type, got \"slow\""));
  CHECK_THAT(refusal("cluster: {reconnect_timeout: 10}"),
             StartsWith("run.yaml:1: cluster.reconnect_timeout: a duration without a unit"));
}

}  // namespace
}  // namespace paceline
