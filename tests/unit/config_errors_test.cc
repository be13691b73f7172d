// Bad input: each fault ends in exactly one line, `file:line: key: what is wrong, got …, expected …`.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/config/load.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;
using testing::refusal;

TEST_CASE("an_error_says_file_line_key_what_got_and_expected") {
  CHECK(refusal("# a comment\nsync:\n  policy: ssp\n  threshold: three\n") ==
        "run.yaml:4: sync.threshold: wrong type, got \"three\", expected a whole number from 0 to 1000000");
  CHECK(refusal("run: {}", {"cluster.nodes=0"}) ==
        "command line: cluster.nodes: out of range, got \"0\", expected a whole number from 1 to 4096");
}

TEST_CASE("an_error_about_a_text_with_control_characters_is_one_line_too") {
  // What yaml-cpp says of it repeats it.
  const std::string escape = refusal("run: {out: \"a\\\x1b\"}\n");
  CHECK_THAT(escape, StartsWith("run.yaml:1: YAML syntax error, got unknown escape character"));
  CHECK(escape.find('\x1b') == std::string::npos);
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
  CHECK_THAT(refusal("cluster: {nodse: 2}"), Contains("did you mean cluster.nodes?"));
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
                         {"train.precision=fp8", "unknown choice"},
                         {"train.devices=[-1]", "devices[0]: "},
                         {"train.devices=0", "wrong type"},
                         {"data.on_device=on", "unknown choice"},
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

TEST_CASE("names_of_layers_and_what_they_read_are_checked") {
  const auto layers = [](const std::string& one) {
    return "train:\n  model: layers\n  layers:\n    - {kind: conv, out: 3, kernel: 3, name: a}\n    - " +
           one + "\n    - {kind: dense, out: 10}\n";
  };
  CHECK_THAT(refusal(layers("{kind: add}")),
             StartsWith("run.yaml:5: train.layers[1]: missing key, got no from"));
  CHECK_THAT(refusal(layers("{kind: relu, name: \"\"}")),
             StartsWith("run.yaml:5: train.layers[1].name: an empty name"));
  CHECK_THAT(refusal(layers("{kind: relu, from: a}")),
             StartsWith("run.yaml:5: train.layers[1].from: wrong type"));
  CHECK_THAT(refusal(layers("{kind: relu, from: []}")),
             StartsWith("run.yaml:5: train.layers[1].from: an empty list"));
  CHECK_THAT(refusal(layers("{kind: relu, lr_factor: 0}")),
             StartsWith("run.yaml:5: train.layers[1]: unknown key, got \"lr_factor\", expected relu to have "
                        "kind, name, from"));
  CHECK_THAT(refusal(layers("{kind: conv, out: 3, kernel: 3, lr_factor: -1}")),
             StartsWith("run.yaml:5: train.layers[1].lr_factor: out of range"));
  CHECK(refusal(layers("{kind: add, from: [a, b]}")) ==
        "run.yaml:5: train.layers[1]: the network cannot be built, got add: from b, expected the name of a "
        "layer before it, or input");
  CHECK_THAT(refusal(layers("{kind: add, from: [a, fc1]}")),
             StartsWith("run.yaml:5: train.layers[1]: ") && Contains("not before it but train.layers[2]"));
  CHECK_THAT(refusal(layers("{kind: relu, name: a}")),
             StartsWith("run.yaml:5: train.layers[1]: ") && Contains("name a is that of train.layers[0]"));
  CHECK_THAT(refusal(layers("{kind: relu, from: [input]}")),
             StartsWith("run.yaml:4: train.layers[0]: ") && Contains("no layer reads a"));
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
        "run.yaml:1: checkpoint.keep: nobody reads it, got 3, expected an every_clocks, every or keep_best, "
        "or run.max_seconds, or no value (null)");
  CHECK_THAT(refusal("simulate:\n  network:\n    bandwidth: [1GiB,\n      slow]"),
             StartsWith("run.yaml:4: simulate.network.bandwidth[1]: wrong type, got \"slow\""));
  CHECK_THAT(refusal("cluster: {reconnect_timeout: 10}"),
             StartsWith("run.yaml:1: cluster.reconnect_timeout: a duration without a unit"));
}

}  // namespace
}  // namespace paceline
