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
           {"sync: {policy: bsp, pull_order: after_push}", "sync.pull_order: what is versioned"},
           {"sync: {policy: ssp, pull_order: before_push}", "sync.pull_order: what is versioned"},
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
           {"cluster: {nodes: 2}\ntrain: {model: resnet20, device: cuda, precision: fp16, on_nan: "
            "skip, batch_norm_group: 2}",
            "train.precision: each member has a loss scale of its own, got fp16 with "
            "train.batch_norm_group: 2, expected fp32, "
            "tf32 or bf16"},
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
           {"train: {layers: [{kind: dense, out: 10}]}", "train.layers: they count with train.model: layers"},
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
            "inner_optimizer, expected train.inner_optimizer with a kind and an lr, or local_steps: "
            "1; those of a loop of your own "
            "are attach(local_steps=...)"},
           {"train: {inner_optimizer: {lr: 0.1}}",
            "train.inner_optimizer.lr: an inner optimizer without local steps, got no train.local_steps"},
           {"train: {local_steps: 10, inner_optimizer: {kind: sgd}, optimizer: {kind: momentum}}",
            "train.optimizer.kind: an outer optimizer without a rate, which deltas want another of than gradients, got "
            "kind: momentum, no lr, expected train.optimizer.lr"},
           {"train: {local_steps: 10, inner_optimizer: {kind: sgd}}\nsync: {policy: switch, stages: [{policy: bsp, "
            "until: {iterations: 400}}, {policy: asp}]}",
            "sync.stages: an eager stage adds deltas up, of which each alone is a whole step at lr 1, got no "
            "train.optimizer.lr, expected train.optimizer.lr, and the eager stage's lr_scale"},
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
           {"run: {trace_events: 1000}",
            "run.trace_events: nobody reads it, got 1000, expected run.trace: true"},
           {"cluster: {etcd_prefix: mine}",
            "cluster.etcd_prefix: nobody reads it, got \"mine\", expected cluster.etcd"},
           {"emulate: {cores: 4}", "emulate.cores: a number of cores without emulate.base_step"},
           {"train: {precision: tf32}",
            "train.precision: only a GPU has it, got tf32 with device: cpu, expected fp32 or bf16, or device: cuda"},
           {"train: {precision: fp16, on_nan: skip}", "train.precision: only a GPU has it, got fp16 with device: cpu"},
           {"train: {precision: fp16, device: cuda}",
            "train.precision: a step that overflows fp16 is skipped, and its loss scaled less, got "
            "stop, expected on_nan: skip"},
           {"train: {precision: fp16, device: cuda, on_nan: skip, local_steps: 2, inner_optimizer: "
            "{kind: sgd, lr: 0.1}}",
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
        "emulate: {base_step: null, cores: 8, jitter: lognormal, jitter_spread: 0.5, slowdown: [2]}"}) {
    INFO(text);
    CHECK(parse_config(text, "run.yaml", {}).is_ok());
  }
}

}  // namespace
}  // namespace paceline
