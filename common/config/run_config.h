// The configuration of one run, as plain structs: what one YAML file says after defaults and overrides. Every
// field says effect, unit and trade-off; configs/reference.yaml lists the same keys and a test holds the two
// together. Loading and validation: common/config/load.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/config/layer_config.h"
#include "common/config/optimizer_section.h"
#include "common/encode/encoding.h"
#include "common/ids.h"
#include "common/schedule/algorithm.h"
#include "common/sync/modes.h"
#include "common/sync/policy_stage.h"

namespace paceline {

using Duration = std::chrono::nanoseconds;

// run: what this run is called, where it writes and when it ends.
struct RunSection {
  std::string name = "run";
  std::uint64_t seed = 1;                   // all randomness of the run is a function of it
  std::string out;                          // run directory; required by the daemons
  std::optional<Duration> max_seconds;      // stop gracefully after this long since the first grant
  std::optional<double> target_accuracy;    // stop when an evaluation reaches this test accuracy, (0, 1]
  std::string log_level = "info";           // debug | info | warn | error
  bool tensorboard = false;                 // write TensorBoard's event files into `out`
  bool trace = false;                       // record every phase and decision into trace.json
  std::int64_t trace_events = 500'000;      // at most so many of the whole run, the newest
  std::optional<std::string> http;          // "host:port" where the authority answers HTTP; null: nowhere
  std::optional<double> straggler_warning;  // a score below it is said in the log, (0, 1); null: none is

  bool operator==(const RunSection&) const = default;
};

// Whether payloads between processes of one machine lie in memory that both see, instead of being sent.
enum class SharedMemory {
  kAuto,  // where it can be had
  kOff,
  kOn,  // or the run does not begin
};

// cluster: who takes part and how they find each other.
struct ClusterSection {
  std::uint32_t nodes = 1;  // that may take part
  // Training begins when so many of them have joined, and others may come later; null: when all have.
  std::optional<std::uint32_t> nodes_at_start;
  std::uint32_t threads_per_node = 1;
  std::uint32_t shards = 1;
  // Servers of each shard: with 2 one follows the other, and serves in its place once that is gone.
  std::uint32_t replicas = 1;
  // One per shard: "tcp://host:port" or "ipc://path". Server k binds endpoints[k], everybody connects to it.
  // With replicas the second ones' follow, likewise: shard k's has endpoints[shards + k].
  std::vector<std::string> endpoints = {"tcp://127.0.0.1:5555"};
  // Where nodes that are connected to each other reach this one (mesh_address.h); null: at the address from which it
  // reaches the server.
  std::optional<std::string> mesh_address;
  std::vector<std::string> etcd;  // "http://host:port" of its members, which decide who serves; for replicas
  std::string etcd_prefix = "paceline";  // of this run's keys there
  Duration start_timeout = std::chrono::seconds(60);
  Duration lease = std::chrono::seconds(10);     // silence longer than this means lost
  Duration heartbeat = std::chrono::seconds(1);  // how often everyone says it is alive; lease > 2 x heartbeat
  // How long a node waits for servers that are gone to come back (paceline-server --resume); 0: it ends.
  Duration reconnect_timeout{0};
  // Payload bytes per message, <= 1 MiB; with another encoding than fp32 as many floats, in fewer bytes.
  std::int64_t frame_bytes = 512 * 1024;
  Encoding gradient_encoding = Encoding::kFp32;   // of pushes
  std::optional<double> top_k_share;              // of a frame's floats, kept by top_k; null with the others
  Encoding parameter_encoding = Encoding::kFp32;  // of answers, but for exact ones: fp32, fp16 or bf16
  std::optional<std::uint32_t> apply_threads;     // of a server; null: usual_threads()
  SharedMemory shared_memory = SharedMemory::kAuto;
  bool huge_pages = true;  // where the system gives them

  // Where shard k is to be had, by replica.
  std::vector<std::string> endpoints_of(std::uint32_t shard) const {
    std::vector<std::string> found;
    for (std::uint32_t r = 0; r < replicas; ++r)
      found.push_back(endpoints.at(std::size_t{r} * shards + shard));
    return found;
  }
  Cluster cluster() const { return {nodes, threads_per_node}; }
  bool operator==(const ClusterSection&) const = default;
};

// security: who may take part, and whether others on the network can read along.
struct SecuritySection {
  std::string keys;             // folder of this machine's keys (`paceline keygen`); empty (YAML: null): none
  bool allow_insecure = false;  // without keys, also at addresses that other machines reach
  bool operator==(const SecuritySection&) const = default;
};

// checkpoint: when the run's state is written to disk while it trains; neither of the two: never.
struct CheckpointSection {
  std::optional<std::int64_t> every_clocks;
  std::optional<Duration> every;
  std::int64_t keep = 2;
  std::int64_t keep_best = 0;  // of the versions that are evaluated, beside `keep`

  bool enabled() const { return every_clocks || every || keep_best > 0; }  // while it trains
  bool operator==(const CheckpointSection&) const = default;
};

enum class Device { kCpu, kCuda };

struct LprSection {
  LprMetric metric = LprMetric::kAccuracy;
  std::optional<std::int64_t> window_clocks;  // null: 20,000 / samples per clock, rounded up
  double increase_above = 5.0;                // per cent
  double decrease_below = -5.0;               // per cent
  bool operator==(const LprSection&) const = default;
};

// sync: the policy (docs/SYNC.md). Loading refuses what a policy has no use for and fills in `apply` and
// `combine` by policy.
struct SyncSection {
  PolicyKind policy = PolicyKind::kBsp;
  std::int64_t threshold = 3;                      // ssp: s; dtssp, random_walk: initial s; refused elsewhere
  std::int64_t threshold_min = 3;                  // dtssp, random_walk; dssp: s_L
  std::int64_t threshold_max = 10;                 // dtssp, random_walk; dssp: s_U
  std::optional<std::int64_t> refresh_clocks = 1;  // null: only when required
  PullOrder pull_order = PullOrder::kAuto;         // eager; refused where nothing ever is
  std::int64_t backup_workers = 1;                 // backup: b; refused elsewhere
  std::vector<PolicyStage> stages;                 // switch: two or more
  LprSection lpr;
  ApplyMode apply = ApplyMode::kVersioned;   // default: asp eager, else versioned
  CombineMode combine = CombineMode::kMean;  // default: versioned mean, eager each
  bool operator==(const SyncSection&) const = default;
};

enum class ExchangeKind { kServer, kAllreduce };

// What becomes of an all-reduce that loses a node.
enum class OnLoss { kGoOn, kStop };

// exchange: how what workers compute is brought together.
struct ExchangeSection {
  ExchangeKind kind = ExchangeKind::kServer;
  schedule::Algorithm algorithm = schedule::Algorithm::kAuto;
  std::vector<std::uint32_t> grid;  // torus: rows, columns; empty: nearly square
  std::int64_t bucket_bytes = 4 * 1024 * 1024;
  OnLoss on_loss = OnLoss::kGoOn;
  bool shard_optimizer = false;  // each node steps its own part
  std::string measured{};        // a file; empty: in run.out
  // Rounds of local steps: the next one is granted while the last one's delta is on its way
  // (common/sync/grants_ahead.cc).
  bool hidden = false;
  // In how many equal parts a delta leaves, spread over its round (common/step/grant.h); 1: at its end.
  std::uint32_t fragments = 1;
  bool operator==(const ExchangeSection&) const = default;
};

// By what a network is cut into stages: what a sample takes to compute, what a stage keeps in memory, or the numbers
// of layers of each stage.
enum class BalanceKind { kTime, kMemory, kLayers };
struct StageBalance {
  BalanceKind kind = BalanceKind::kTime;
  std::vector<std::uint32_t> layers;  // kLayers: of each stage; else empty
  bool operator==(const StageBalance&) const = default;
};

enum class Rematerialize { kOff, kOn, kAuto };

// pipeline: a network that is cut into stages, each on a node of its own (docs/PIPELINES.md).
struct PipelineSection {
  std::uint32_t stages = 1;  // K; 1: no pipeline
  std::int64_t micro_batches = 1;
  schedule::PipelineKind schedule = schedule::PipelineKind::kGpipe;
  Rematerialize rematerialize = Rematerialize::kOff;
  StageBalance balance;
  std::optional<std::int64_t> memory{};  // bytes of a node (common/network/stage_plan.h)
  std::uint32_t chunks = 2;              // v, of a stage, with interleaved

  bool enabled() const { return stages > 1; }
  // Of the network, that a stage has.
  std::uint32_t chunks_of_stage() const {
    return enabled() && schedule == schedule::PipelineKind::kInterleaved ? chunks : 1;
  }
  bool operator==(const PipelineSection&) const = default;
};

enum class Backend { kOnednn, kReference };
// What is multiplied (worker/model/cuda/precision.h); parameters and gradients are float32 with each.
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

struct TrainSection {
  std::string model =
      "cifar_cnn_small";  // a ready-made network's name | layers (then `layers` is the network)
  std::vector<LayerConfig> layers;
  double dropout = 0.0;                // ready-made networks: rate before the last dense layer
  std::uint32_t batch_norm_group = 1;  // nodes whose values batch norms measure together
  bool zero_gamma = false;             // ready-made residual networks: blocks begin as the identity
  Backend backend = Backend::kOnednn;  // on the CPU
  OptimizerSection optimizer;          // the servers'
  // Mini-batches that a worker takes with its inner optimizer between two exchanges; the difference that they
  // made is contributed like a gradient (docs/SYNC.md, Local steps).
  std::int64_t local_steps = 1;
  std::optional<Duration> local_time;  // a round ends after it, with the mini-batches that fit into it
  OptimizerSection inner_optimizer;    // the worker's own, where there is one
  bool has_inner_optimizer = false;    // no key: some key of inner_optimizer was given
  BatchSizing local_balance = BatchSizing::kEqual;  // of a round: how many local steps each worker takes
  std::int64_t warm_start_steps = 0;  // mini-batches that one worker takes alone before the first round
  // A Caffe solver.prototxt that says the network, the optimizer and the run's length; loading puts what it
  // says into the other fields and leaves this empty (common/caffe/solver.h).
  std::string caffe_solver;
  std::string init_from;          // model file that the parameters begin with; empty (YAML: null): the seed
  std::int64_t batch_size = 128;  // samples per worker and iteration
  std::int64_t accumulate = 1;    // parts that a mini-batch is computed in, one after another
  double label_smoothing = 0.0;   // share of the target that goes to all classes alike; in training alone
  // A mini-batch's gradient whose norm is larger is scaled down to it; null: none is.
  std::optional<double> clip_gradients;
  BatchSizing batch_balance = BatchSizing::kEqual;
  std::int64_t total_iterations = 1000;  // over all workers
  std::optional<double> total_epochs{};  // the same, as asked for; loading makes iterations of them
  Share share = Share::kEven;
  std::optional<std::int64_t> eval_every_clocks;  // null: only at the end
  std::int64_t eval_samples = 0;                  // 0: the whole test set
  Device device = Device::kCpu;
  std::vector<std::uint32_t> devices;  // GPUs of each node, its threads in turn; empty: all it has
  Precision precision = Precision::kFp32;
  OnNan on_nan = OnNan::kStop;
  double skips_max =
      0.5;  // on_nan: skip: the run fails when a larger share of its last iterations is skipped

  // Of a run: whole rounds of local_steps mini-batches, by one worker each.
  std::int64_t rounds() const { return total_iterations / local_steps; }
  std::int64_t round_samples() const { return batch_size * local_steps; }
  // Samples of each local step; 0: there are none (common/step/grant.h).
  std::int64_t mini_batch_of_local_steps() const { return has_inner_optimizer ? batch_size : 0; }
  // How large what each worker computes between two exchanges is: a mini-batch, or a round of several.
  BatchSizing sizing() const { return local_balance != BatchSizing::kEqual ? local_balance : batch_balance; }
  // What the core counts are rounds; what people are told of are iterations, mini-batches.
  std::int64_t iterations_in(std::int64_t whole_rounds) const { return whole_rounds * local_steps; }
  bool operator==(const TrainSection&) const = default;
};

enum class DataKind { kSynthetic, kCifar10, kImages };
enum class OnDevice { kAuto, kOff };
// What is taken from a pixel: the training set's mean of its channel or of its place, given values, or nothing.
enum class Subtract { kChannel, kPixel, kValues, kNone };
// What of a training picture is shown under data.augment: a part of random area and aspect, or of fixed size at a
// random place.
enum class CropKind { kArea, kPlace };
// data.crop: from a picture of any size to a sample (kind: images).
struct CropSection {
  std::int64_t size = 224;    // pixels a side: of the network's input
  std::int64_t resize = 256;  // pixels of the shorter side before a crop of fixed size
  CropKind kind = CropKind::kArea;
  std::vector<double> area = {0.08, 1.0};          // kind area: share of the picture, from and to
  std::vector<double> aspect = {0.75, 4.0 / 3.0};  // kind area: width / height, from and to
  std::int64_t padding = 0;                        // kind place: pixels around the resized picture, each side
  bool flip = true;                                // left to right, every other one
  bool operator==(const CropSection&) const = default;
};
enum class OnBad { kSkip, kFail };
// Which samples a node trains on: others in each epoch, or always the same.
enum class DataParts { kAnew, kFixed };
// fused: only the crop, to the bit as whole; whole: all of the picture; scaled: as fused, smaller where that is enough
enum class DecodeKind { kFused, kWhole, kScaled };
struct DataSection {
  DataKind kind = DataKind::kSynthetic;
  std::string path;      // folder with the data (docs/DATA.md); empty (YAML: null): none
  bool augment = false;  // random crop and horizontal flip
  Subtract subtract = Subtract::kChannel;
  std::vector<double> subtract_values;  // subtract: values: of each channel, 0..255; one serves all
  std::string mean_file;                // subtract: pixel: a binaryproto with the means; empty: computed
  std::optional<double> scale;          // what is left is multiplied by it; null: 1 / the channel's deviation
  std::int64_t classes = 10;            // images: folders of classes
  double test_share = 0.0;              // images: of one folder's pictures; 0: two folders
  CropSection crop;                     // images
  std::vector<double> mean = {123.675, 116.28, 103.53};     // images: red, green, blue; of 255
  std::vector<double> deviation = {58.395, 57.12, 57.375};  // images: what a difference from it is divided by
  std::int64_t cache = std::int64_t{1} << 30;               // images: bytes of encoded files in memory
  DecodeKind decode = DecodeKind::kFused;                   // images
  OnBad on_bad = OnBad::kSkip;                              // images: what cannot be read
  std::int64_t max_pixels = std::int64_t{1} << 26;          // images: a larger picture counts as bad
  std::optional<std::int64_t> train_samples{};  // of an epoch, which nodes find in `path`; null: not said
  DataParts parts = DataParts::kAnew;
  std::uint32_t loader_threads = 1;
  std::uint32_t prefetch_batches = 2;    // mini-batches kept ready per worker
  OnDevice on_device = OnDevice::kAuto;  // the training set in the GPUs' memory; auto: where it fits
  bool operator==(const DataSection&) const = default;
};

enum class JitterKind { kNone, kUniform, kLognormal, kExponential };
// emulate: a heterogeneous cluster on one machine (docs/CONFIG.md). Off when base_step is null.
struct EmulateSection {
  std::optional<Duration> base_step;
  std::vector<double> slowdown;           // factor per node; one value serves all; empty: 1
  JitterKind jitter = JitterKind::kNone;  // random factor with mean 1 per worker and clock
  double jitter_spread = 0.1;  // uniform: +-spread; lognormal: sigma; exponential: share that is random
  std::uint32_t cores = 2;     // compute slots, shared by all nodes on this machine
  bool operator==(const EmulateSection&) const = default;
};

// How long a simulated computation takes. kEmulated: as `emulate` says, the very durations of a real run.
enum class ComputeKind { kEmulated, kConstant, kNormal, kLognormal, kGamma, kPareto };

// simulate.compute: the iterations of a simulated worker, beside emulate.slowdown where no slowdown is given.
struct SimulatedCompute {
  ComputeKind distribution = ComputeKind::kEmulated;
  std::optional<Duration> mean;  // of a node with slowdown 1; null: emulate.base_step
  double cv = 0.3;               // normal, lognormal, gamma: standard deviation / mean
  double shape = 3.0;            // pareto: the tail's exponent, above 1
  std::vector<double> slowdown;  // factor per node; one value serves all; empty: emulate.slowdown
  double slow_share = 0.0;       // of the time, a node is slow: all its workers together
  Duration slow_length = std::chrono::seconds(10);  // mean length of a slow period
  double slow_factor = 2.0;                         // how much slower it is then
  std::optional<Duration> pause_every;  // mean time from the end of a pause to the next; null: none
  Duration pause_length = std::chrono::seconds(1);  // mean length of a pause: a node computes nothing
  bool operator==(const SimulatedCompute&) const = default;
};

// simulate.network: what lies between the processes. null: without a limit.
struct SimulatedNetwork {
  Duration latency = std::chrono::microseconds(100);  // one way, of every message between two processes
  // Bytes per second of a node's link, in each direction: one value for all, or one for each node.
  std::vector<std::optional<std::int64_t>> bandwidth = {std::nullopt};
  std::optional<std::int64_t> server_bandwidth;  // the same of a server's link, which the nodes share
  bool operator==(const SimulatedNetwork&) const = default;
};

// simulate.costs: what the processes themselves take.
struct SimulatedCosts {
  Duration message = std::chrono::microseconds(20);  // of a server's loop or a node's, for one message
  double apply = 1.0;                                // ns per float: one gradient applied by a server
  double local_apply = 1.0;                          // ns per float: one gradient applied to a thread cache
  double copy = 1.0;  // ns per float: parameters or a difference into a thread cache
  Duration batch{0};  // getting the mini-batch
  bool operator==(const SimulatedCosts&) const = default;
};

enum class ClusterEventKind { kCrash, kJoin };
// Something that happens to a simulated node, `at` after the first grant (cluster_events.h).
struct ClusterEvent {
  Duration at{0};
  std::uint32_t node = 0;
  ClusterEventKind kind = ClusterEventKind::kCrash;
  bool operator==(const ClusterEvent&) const = default;
};

enum class MetricNoise { kNone, kBinomial };
// simulate.metric: how well training goes, as a function of the samples learned from. Either `curve` or
// `final_accuracy`; dtssp needs one.
struct SimulatedMetric {
  std::string curve;                     // a file "samples,accuracy,loss"; empty (YAML: null): none
  std::optional<double> final_accuracy;  // 0..1, approached as initial + (final - initial) n / (n + half)
  double initial_accuracy = 0.1;
  double final_loss = 0.5;
  double initial_loss = 2.3;
  std::int64_t half_samples = 100'000;  // half of the way is gone after so many
  MetricNoise noise = MetricNoise::kBinomial;
  double loss_deviation = 1.0;  // standard deviation of one sample's loss, with noise
  bool operator==(const SimulatedMetric&) const = default;
};

// What a simulated worker computes: nothing (kTiming), or its real gradient (kTraining).
enum class SimulateMode { kTiming, kTraining };

// simulate: what `paceline simulate` does, and assumes of the cluster; nothing else reads it
// (docs/SIMULATOR.md).
struct SimulateSection {
  SimulateMode mode = SimulateMode::kTiming;
  SimulatedCompute compute;
  SimulatedNetwork network;
  SimulatedCosts costs;
  std::vector<ClusterEvent> events;
  SimulatedMetric metric;
  bool operator==(const SimulateSection&) const = default;
};

struct RunConfig {
  RunSection run;
  ClusterSection cluster;
  SecuritySection security;
  CheckpointSection checkpoint;
  SyncSection sync;
  ExchangeSection exchange;
  PipelineSection pipeline;
  TrainSection train;
  DataSection data;
  EmulateSection emulate;
  SimulateSection simulate;
  bool operator==(const RunConfig&) const = default;
};

// Whether nodes of the run are connected to each other, and none can go on without the others.
inline bool nodes_are_connected(const RunConfig& config) {
  return config.exchange.kind == ExchangeKind::kAllreduce || config.pipeline.enabled() ||
         config.train.batch_norm_group > 1;
}

}  // namespace paceline
