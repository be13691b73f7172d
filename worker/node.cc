#include "worker/node.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/cache/own_updates.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/ticks.h"
#include "common/wire/memory.h"
#include "common/wire/segment_sizes.h"
#include "common/wire/shared_memory.h"
#include "worker/cache/process_cache.h"
#include "worker/client/ps_client.h"
#include "worker/emulate/compute_slots.h"
#include "worker/emulate/pace.h"
#include "worker/node_memory.h"
#include "worker/train/evaluator.h"
#include "worker/train/leaving_gradient.h"
#include "worker/train/trainer.h"

namespace paceline {
namespace {

std::uint64_t new_incarnation() {
  std::random_device entropy;
  return (std::uint64_t{entropy()} << 32) | entropy();
}

Threshold largest_threshold(const RunConfig& config) {
  return sync::largest_threshold(engine_config(config).policy);
}

// Under shared memory a gradient stays in its buffer until the servers have applied it: at a grant those of
// at most `largest threshold` clocks wait for others (DESIGN 3.1), one is computed into, and two are for
// servers that are late to say that they have applied theirs. What the thread cache keeps meanwhile is the
// last one, which is among these. Eager, none waits for others. Made when needed, so a large threshold costs
// nothing before a worker leads by that much.
std::size_t gradient_buffers_max(const RunConfig& config, bool shared) {
  const Threshold largest = largest_threshold(config);
  if (!shared || config.sync.apply == ApplyMode::kEager || largest.is_infinite())
    return GradientBuffers::kBuffersMax;
  return static_cast<std::size_t>(largest.value()) + 3;
}

// For all gradients that the node may have at a time.
Result<std::shared_ptr<wire::SharedSegment>> memory_to_share(const RunConfig& config, const Layout& layout) {
  if (config.cluster.shared_memory == SharedMemory::kOff) return std::shared_ptr<wire::SharedSegment>();
  return wire::SharedSegment::create(wire::gradient_segment_bytes(
      layout.size(), config.cluster.threads_per_node, gradient_buffers_max(config, true)));
}

// Null where the run has no keys.
Result<std::shared_ptr<const wire::ClientKeys>> keys_of(const RunConfig& config, NodeId node) {
  if (config.security.keys.empty()) return std::shared_ptr<const wire::ClientKeys>();
  PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_node_keys(config.security.keys, node.value));
  return std::make_shared<const wire::ClientKeys>(std::move(keys));
}

// What a training thread leaves behind besides its report.
struct ThreadResult {
  Result<wire::WorkerReport> report = unavailable("the thread did not run");
  std::int64_t parameter_reads = 0;
  std::int64_t server_reads = 0;
};

}  // namespace

class Node::Impl {
 public:
  Impl(const RunConfig& config, NodeId node, wire::Context& context, std::unique_ptr<TaskFactory> tasks,
       Log log, const NodeOptions& options)
      : config_(config),
        node_(node),
        tasks_(std::move(tasks)),
        log_(std::move(log)),
        process_cache_(partition(tasks_->layout().size(), config_.cluster.shards)),
        memory_(memory_to_share(config_, tasks_->layout())),
        keys_(keys_of(config_, node)),
        client_({config_.cluster, node, new_incarnation(), fingerprint(config_), tasks_->data_fingerprint(),
                 log_, memory_.is_ok() ? *memory_ : nullptr, [this] { on_closed(); },
                 options.floats_at_once.value_or(PsClientOptions::kFloatsAtOnce),
                 keys_.is_ok() ? *keys_ : nullptr},
                tasks_->layout(), context, process_cache_) {}

  Status run() {
    PACELINE_RETURN_IF_ERROR(keys_.status());
    wire::prefer_huge_pages(usual_bytes(config_.cluster, tasks_->layout().size()));
    PACELINE_RETURN_IF_ERROR(open_slots());
    if (!memory_.is_ok()) {
      if (config_.cluster.shared_memory == SharedMemory::kOn) {
        return Status(memory_.status()).with_context("cluster.shared_memory is on");
      }
      log_.warn("no memory is shared with servers of this machine: " + memory_.status().message());
    }
    if (Status started = client_.start(); !started.is_ok()) {
      client_.leave(started);  // some servers may have welcomed this node
      return started;
    }
    log_.info("node " + to_string(node_) + " joined " + std::to_string(config_.cluster.shards) +
              " server(s) with " + std::to_string(config_.cluster.threads_per_node) + " worker(s)");
    if (node_ == NodeId(0)) send_initial_parameters();

    std::thread evaluator([this] { evaluate(); });
    std::vector<ThreadResult> results = train();
    remove_slot_files(results);
    Status ended = conclude(results);
    log_.info("node " + to_string(node_) + " ends: " + (ended.is_ok() ? "the run is over" : ended.message()));
    client_.close(aborted("node " + to_string(node_) + " ends"));
    evaluator.join();
    return ended;
  }

  void request_stop(const std::string& reason) {
    // The threads end behind their running steps; then conclude() says goodbye.
    client_.close(aborted(reason));
  }

 private:
  Status open_slots() {
    if (!config_.emulate.base_step) return Status::ok();
    std::error_code error;
    std::filesystem::create_directories(config_.run.out, error);
    if (error) return unavailable("cannot create " + config_.run.out + ": " + error.message());
    PACELINE_ASSIGN_OR_RETURN(auto slots, ComputeSlots::open(config_.run.out, config_.emulate.cores));
    std::lock_guard lock(slots_mutex_);
    slots_ = std::move(slots);
    return Status::ok();
  }

  // A worker that was granted something says that all nodes had joined, with their slots open.
  void remove_slot_files(const std::vector<ThreadResult>& results) {
    const auto trained = [](const ThreadResult& result) { return result.parameter_reads > 0; };
    if (slots_ != nullptr && std::any_of(results.begin(), results.end(), trained)) slots_->remove_files();
  }

  void send_initial_parameters() {
    std::vector<float> values(static_cast<std::size_t>(tasks_->layout().size()));
    tasks_->initialize(values);
    client_.send_initial_parameters(std::move(values));
  }

  std::vector<ThreadResult> train() {
    std::vector<ThreadResult> results(config_.cluster.threads_per_node);
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < results.size(); ++t) {
      threads.emplace_back([this, t, &result = results[t]] {
        train_worker(WorkerId(node_, t), result);
        // One worker that cannot go on ends its node: nobody else can do its share.
        if (!result.report.is_ok()) client_.close(result.report.status());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  void train_worker(WorkerId worker, ThreadResult& result) {
    auto task = tasks_->make_trainer(worker);
    if (!task.is_ok()) {
      result.report = Status(task.status()).with_context("worker " + to_string(worker));
      return;
    }
    // Where none of the servers reads them they may as well lie on the heap, and three are enough.
    const bool shares = client_.shares_memory() && config_.cluster.gradient_encoding == Encoding::kFp32;
    Training training{
        .worker = worker,
        .layout = tasks_->layout(),
        .freshness = {config_.sync.apply, config_.sync.refresh_clocks},
        .applies_locally = cache::keeps_own_updates(largest_threshold(config_)),
        .looks = worker_looks(config_.train.on_nan, config_.cluster.gradient_encoding),
        .batches = batch_limits(config_),
        .deadline = config_.cluster.lease,
        .exchange = client_,
        .process_cache = process_cache_,
        .task = **task,
        .pace = pace_,
        .slots = slots_.get(),
        .cache = ThreadCache(config_.train.optimizer, process_cache_.ranges(), worker.thread),
        .gradients = GradientBuffers(tasks_->layout().size(), gradient_buffers_max(config_, shares),
                                     shares ? *memory_ : nullptr),
        .emulator = Emulator(config_.emulate, config_.run.seed, config_.cluster.cluster(), worker,
                             config_.train.batch_size),
        .phases = PhaseRecorder(),
        .clock = steady_now,
    };
    result.report = run_trainer(training);
    result.parameter_reads = training.parameter_reads;
    result.server_reads = training.server_reads;
  }

  void evaluate() {
    const Status ended = run_evaluator(*tasks_, client_, log_);
    client_.close(ended);  // usually it is why the evaluator ended
  }

  // After the training threads: reports and waits for the end, or says goodbye.
  Status conclude(const std::vector<ThreadResult>& results) {
    for (const ThreadResult& result : results) {
      if (result.report.is_ok()) continue;
      if (const auto over = client_.run_over()) return *over;
      const Status why = client_.closed();
      client_.leave(why);
      return why;
    }
    wire::NodeReport report;
    report.node = node_;
    for (const ThreadResult& result : results) {
      report.workers.push_back(result.report.value());
      report.parameter_reads += result.parameter_reads;
      report.server_reads += result.server_reads;
    }
    return client_.finish(std::move(report));
  }

  // Whoever still sleeps out an emulated step or evaluates does it for nobody. Thread: whichever closes the
  // client.
  void on_closed() {
    pace_.stop();
    tasks_->stop_evaluating();
    std::lock_guard lock(slots_mutex_);
    if (slots_ != nullptr) slots_->stop();
  }

  const RunConfig config_;
  const NodeId node_;
  const std::unique_ptr<TaskFactory> tasks_;
  const Log log_;
  ProcessCache process_cache_;
  const Result<std::shared_ptr<wire::SharedSegment>> memory_;  // outlived by what lies in it
  const Result<std::shared_ptr<const wire::ClientKeys>> keys_;
  SteadyPaceClock pace_;
  std::mutex slots_mutex_;  // run() makes them while request_stop() may come
  std::unique_ptr<ComputeSlots> slots_;
  PsClient client_;
};

Node::Node(const RunConfig& config, NodeId node, wire::Context& context, std::unique_ptr<TaskFactory> tasks,
           Log log, NodeOptions options)
    : impl_(std::make_unique<Impl>(config, node, context, std::move(tasks), std::move(log), options)) {}
Node::~Node() = default;

Status Node::run() { return impl_->run(); }
void Node::request_stop(const std::string& reason) { impl_->request_stop(reason); }

}  // namespace paceline
