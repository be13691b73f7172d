#include "worker/session.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "common/cache/own_updates.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/ticks.h"
#include "common/wire/segment_sizes.h"
#include "worker/train/evaluator.h"
#include "worker/train/leaving_gradient.h"
#include "worker/train/trainer.h"

namespace paceline {
namespace {

Threshold largest_threshold(const RunConfig& config) {
  return sync::largest_threshold(engine_config(config).policy);
}

// Under shared memory a gradient stays in its buffer until the servers have applied it: at a grant those of
// at most `largest threshold` clocks wait for others (DESIGN 3.1), one is computed into, and two are for
// servers that are late to say that they have applied theirs. What the thread cache keeps meanwhile are the
// last ones, which are among these. Eager, none waits for others; a run that turns eager has enough of what
// it needed before. Made when needed, so a large threshold costs nothing before a worker leads by that much.
std::size_t gradient_buffers_max(const RunConfig& config, bool shared) {
  const auto versioned = sync::largest_threshold(engine_config(config), ApplyMode::kVersioned);
  if (!shared || !versioned) return GradientBuffers::kBuffersMax;
  return static_cast<std::size_t>(versioned->value()) + 3;
}

// For all gradients that the node may have at a time. Of a session of its own: servers that were lost may
// still read what they were lent.
Result<std::shared_ptr<wire::SharedSegment>> memory_to_share(const RunConfig& config, const Layout& layout) {
  if (config.cluster.shared_memory == SharedMemory::kOff) return std::shared_ptr<wire::SharedSegment>();
  return wire::SharedSegment::create(wire::gradient_segment_bytes(
      layout.size(), config.cluster.threads_per_node, gradient_buffers_max(config, true)));
}

// The same files in every session, until the node ends: whoever emulates on this machine shares them.
Result<std::shared_ptr<ComputeSlots>> open_slots(const RunConfig& config) {
  if (!config.emulate.base_step) return std::shared_ptr<ComputeSlots>();
  std::error_code error;
  std::filesystem::create_directories(config.run.out, error);
  if (error) return unavailable("cannot create " + config.run.out + ": " + error.message());
  PACELINE_ASSIGN_OR_RETURN(auto slots, ComputeSlots::open(config.run.out, config.emulate.cores));
  return std::shared_ptr<ComputeSlots>(std::move(slots));
}

// For whatever of a training thread should never take long. Where servers may come back, their silence has
// to be found first: what waits for them is no fault of this node.
std::chrono::nanoseconds deadline(const ClusterSection& cluster) {
  return cluster.reconnect_timeout > Duration(0) ? 2 * cluster.lease : cluster.lease;
}

}  // namespace

Session::Session(const SessionParts& parts, const SessionEnd& before)
    : parts_(parts),
      config_(parts.config),
      shown_(config_.cluster.threads_per_node),
      process_cache_(partition(parts.tasks.layout().size(), config_.cluster.shards)),
      memory_(memory_to_share(config_, parts.tasks.layout())),
      slots_(open_slots(config_)),
      client_({.cluster = config_.cluster,
               .node = parts.node,
               .incarnation = parts.incarnation,
               .config_fingerprint = fingerprint(config_),
               .data_fingerprint = parts.tasks.data_fingerprint(),
               .log = parts.log,
               .memory = memory_.is_ok() ? *memory_ : nullptr,
               .on_closed = [this] { on_closed(); },
               .floats_at_once = parts.floats_at_once.value_or(PsClientOptions::kFloatsAtOnce),
               .heartbeat = [this] { return heartbeat(); },
               .keys = parts.keys,
               .lost = before.lost,
               .last_generation = before.generation},
              parts.tasks.layout(), parts.context, process_cache_) {}

SessionEnd Session::run(NodeTotals& totals) {
  for (std::uint32_t t = 0; t < shown_.size(); ++t) {
    shown_[t].begin(times_of(totals.report().workers[t].phases));
  }
  if (Status started = start(); !started.is_ok()) {
    client_.leave(started);  // some servers may have welcomed this node
    return {started, client_.lost(), 0};
  }
  if (parts_.node == NodeId(0)) send_initial_parameters();

  std::thread evaluator([this] { evaluate(); });
  const std::vector<ThreadResult> results = train();
  for (const ThreadResult& result : results) {
    totals.add(result.report, result.parameter_reads, result.server_reads);
  }
  write_trace();
  const Status ended = conclude(results, totals);
  client_.close(aborted("node " + to_string(parts_.node) + " ends"));
  evaluator.join();
  return {ended, client_.lost(), client_.generation()};
}

void Session::stop(const std::string& reason) {
  // The threads end behind their running steps; then conclude() says goodbye.
  client_.close(aborted(reason));
}

void Session::remove_slot_files() {
  if (slots_.is_ok() && *slots_ != nullptr) (*slots_)->remove_files();
}

Status Session::start() {
  PACELINE_RETURN_IF_ERROR(slots_.status());
  if (!memory_.is_ok()) {
    if (config_.cluster.shared_memory == SharedMemory::kOn) {
      return Status(memory_.status()).with_context("cluster.shared_memory is on");
    }
    parts_.log.warn("no memory is shared with servers of this machine: " + memory_.status().message());
  }
  PACELINE_RETURN_IF_ERROR(client_.start());
  const std::uint64_t generation = client_.generation();
  parts_.log.info("node " + to_string(parts_.node) + " joined " + std::to_string(config_.cluster.shards) +
                  " server(s) with " + std::to_string(config_.cluster.threads_per_node) + " worker(s)" +
                  (generation > 1 ? ", generation " + std::to_string(generation) : ""));
  return Status::ok();
}

void Session::send_initial_parameters() {
  std::vector<float> values(static_cast<std::size_t>(parts_.tasks.layout().size()));
  parts_.tasks.initialize(values);
  client_.send_initial_parameters(std::move(values));
}

std::vector<Session::ThreadResult> Session::train() {
  std::vector<ThreadResult> results(config_.cluster.threads_per_node);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([this, t, &result = results[t]] {
      train_worker(WorkerId(parts_.node, t), result);
      // One worker that cannot go on ends its node: nobody else can do its share.
      if (!result.ended.is_ok()) client_.close(result.ended);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void Session::train_worker(WorkerId worker, ThreadResult& result) {
  result.report.worker = worker;
  auto task = parts_.tasks.make_trainer(worker);
  if (!task.is_ok()) {
    result.ended = Status(task.status()).with_context("worker " + to_string(worker));
    return;
  }
  // Where none of the servers reads them they may as well lie on the heap, and three are enough.
  const bool shares = client_.shares_memory() && config_.cluster.gradient_encoding == Encoding::kFp32;
  Training training{
      .worker = worker,
      .layout = parts_.tasks.layout(),
      .refresh_clocks = config_.sync.refresh_clocks,
      .applies_locally = cache::keeps_own_updates(largest_threshold(config_)),
      .looks = worker_looks(config_.train.on_nan, config_.cluster.gradient_encoding),
      .batches = batch_limits(config_),
      .deadline = deadline(config_.cluster),
      .exchange = client_,
      .process_cache = process_cache_,
      .task = **task,
      .pace = pace_,
      .slots = slots_->get(),
      .cache = ThreadCache(config_.train.optimizer, process_cache_.ranges(), worker.thread),
      .gradients = GradientBuffers(parts_.tasks.layout().size(), gradient_buffers_max(config_, shares),
                                   shares ? *memory_ : nullptr),
      .emulator = Emulator(config_.emulate, config_.run.seed, config_.cluster.cluster(), worker,
                           config_.train.batch_size),
      .phases =
          PhaseRecorder(steady_now, parts_.trace == nullptr ? nullptr : parts_.trace->spans(worker.thread)),
      .clock = steady_now,
      .shown = &shown_[worker.thread],
  };
  auto report = run_trainer(training);
  result.ended = report.status();
  result.report = report.is_ok() ? std::move(report).value() : unfinished_report(training);
  result.parameter_reads = training.parameter_reads;
  result.server_reads = training.server_reads;
}

// Thread: the client's.
wire::Heartbeat Session::heartbeat() const {
  wire::Heartbeat beat;
  for (const ShownTimes& thread : shown_) beat.workers.push_back(thread.times());
  return beat;
}

// Before the report: once all nodes have reported, the authority looks for what they have written.
void Session::write_trace() {
  if (parts_.trace == nullptr) return;
  const Status written = parts_.trace->write();
  if (!written.is_ok()) parts_.log.warn("no trace of this node: " + written.message());
}

void Session::evaluate() {
  const Status ended = run_evaluator(parts_.tasks, client_, parts_.log);
  client_.close(ended);  // usually it is why the evaluator ended
}

// After the training threads: reports and waits for the end, or says goodbye.
Status Session::conclude(const std::vector<ThreadResult>& results, const NodeTotals& totals) {
  const bool done =
      std::all_of(results.begin(), results.end(), [](const auto& result) { return result.ended.is_ok(); });
  if (done) return client_.finish(totals.report());
  if (const auto over = client_.run_over()) return *over;
  const Status why = client_.closed();
  client_.leave(why);
  return why;
}

// Whoever still sleeps out an emulated step or evaluates does it for nobody. Thread: whichever closes the
// client.
void Session::on_closed() {
  pace_.stop();
  parts_.tasks.stop_evaluating();
  if (slots_.is_ok() && *slots_ != nullptr) (*slots_)->stop();
}

}  // namespace paceline
