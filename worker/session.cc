#include "worker/session.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include "common/cache/own_updates.h"
#include "common/caffe/colours.h"
#include "common/config/engine_config.h"
#include "common/config/load.h"
#include "common/config/planned.h"
#include "common/params/init_from.h"
#include "common/params/rates.h"
#include "common/params/shard_ranges.h"
#include "common/process/machine.h"
#include "common/ticks.h"
#include "common/wire/segment_sizes.h"
#include "worker/cache/host_vectors.h"
#include "worker/client/shard_part.h"
#include "worker/train/gradient_upload.h"
#include "worker/train/pull_order.h"
#include "worker/train/trainer.h"
#include "worker/train/warm_start.h"

namespace paceline {
namespace {

// How often it is looked for what takes long.
constexpr std::chrono::seconds kCheckEvery{1};

Threshold largest_threshold(const RunConfig& config) {
  return sync::largest_threshold(engine_config(config).policy);
}

// Under shared memory a gradient stays in its buffer until the servers have applied it: at a grant those of
// at most `largest threshold` clocks wait for others (docs/SYNC.md; hidden, the one before is among them), one is
// computed into, and two are for servers that are late to say that they have applied theirs. What the thread cache
// keeps meanwhile are the last ones, which are among these. Eager, none waits for others; a run that turns eager has
// enough of what it needed before. Made when needed, so a large threshold costs nothing before a worker leads by that
// much.
std::size_t gradient_buffers_max(const RunConfig& config, ReadBy read_by) {
  const auto versioned = sync::largest_threshold(engine_config(config), ApplyMode::kVersioned);
  if (read_by == ReadBy::kTransport || !versioned) return GradientBuffers::kBuffersMax;
  return static_cast<std::size_t>(versioned->value()) + 3;
}

// Eager, the next gradient is computed while servers still apply the last one: none of its buffers is a late one's.
std::chrono::nanoseconds late_gradient(const RunConfig& config) {
  const bool is_versioned = sync::largest_threshold(engine_config(config), ApplyMode::kVersioned).has_value();
  return is_versioned ? GradientBuffers::kLate : std::chrono::nanoseconds(0);
}

// Of a model below this size a gradient is a small message, and costs less than to say that it is let go of.
constexpr std::int64_t kSharedFloatsMin = 2048;

// Why the node lends no memory; empty: it does, where it can.
std::string why_unshared(const RunConfig& config, const Layout& layout) {
  if (config.cluster.shared_memory == SharedMemory::kOff) return "cluster.shared_memory is off";
  if (config.exchange.kind == ExchangeKind::kAllreduce) return "gradients go to other nodes";
  const bool is_small =
      config.cluster.shared_memory == SharedMemory::kAuto && layout.size() < kSharedFloatsMin;
  return is_small ? "the model is small, and a gradient of it goes in a message" : "";
}

// For all gradients that the node may have at a time. Of a session of its own: servers that were lost may
// still read what they were lent.
Result<std::shared_ptr<wire::SharedSegment>> memory_to_share(const RunConfig& config, const Layout& layout) {
  if (!why_unshared(config, layout).empty()) return std::shared_ptr<wire::SharedSegment>();
  return wire::SharedSegment::create(wire::gradient_segment_bytes(
      layout.size(), config.cluster.threads_per_node, gradient_buffers_max(config, ReadBy::kServers)));
}

// The only thread of a node takes parameters from where a server has written them; several share a copy
// (client/pulls.h).
wire::Pin pin_of(const SessionParts& parts) {
  if (parts.config.cluster.threads_per_node > 1) return {};
  return [&tasks = parts.tasks, &log = parts.log,
          logged = parts.pin_failure_logged](std::span<const std::byte> pages) -> std::shared_ptr<void> {
    Result<std::shared_ptr<void>> pinned = tasks.pin(pages);
    if (pinned.is_ok()) return std::move(pinned).value();
    std::call_once(*logged, [&] {
      log.warn("servers' memory cannot be pinned, and parameters take longer to the GPU: " +
               pinned.status().message());
    });
    return nullptr;
  };
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

// "3.2 s"
std::string in_seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", to_seconds(time));
  return text;
}

}  // namespace

// What a thread trains with. Belongs to that thread.
struct Session::Trainer {
  std::unique_ptr<Task> task;
  std::unique_ptr<CacheVectors> vectors;  // of the thread cache; null: in the host's memory
};

Session::Session(const SessionParts& parts, const SessionEnd& before)
    : parts_(parts),
      config_(parts.config),
      shown_(config_.cluster.threads_per_node),
      trained_(parts.tasks.trained_by(parts.node)),
      layout_(part_of(parts.tasks.layout(), trained_)),
      fragments_(partition(layout_.size(), config_.exchange.fragments)),
      process_cache_(own_ranges(cache_slices(
          trained_parts(shard_ranges(parts.tasks.layout(), config_.train.optimizer, config_.cluster.shards),
                        trained_),
          fragments_))),
      memory_(memory_to_share(config_, layout_)),
      slots_(open_slots(config_)),
      client_({.cluster = config_.cluster,
               .node = parts.node,
               .incarnation = parts.incarnation,
               .config_fingerprint = fingerprint(config_),
               .settings = settings(config_),
               .data_fingerprint = parts.tasks.data_fingerprint(),
               .log = parts.log,
               .memory = memory_.is_ok() ? *memory_ : nullptr,
               .unshared = why_unshared(config_, layout_),
               .pin = pin_of(parts),
               .parameters = parts.tasks.parameter_memory(),
               .on_closed = [this] { on_closed(); },
               .floats_at_once = parts.floats_at_once.value_or(PsClientOptions::kFloatsAtOnce),
               .heartbeat = [this] { return heartbeat(); },
               .own_waits = [this] { return own_waits(); },
               .on_evaluate =
                   [this](Version version) {
                     if (reduces_ != nullptr) keep_version(version);
                   },
               .state_at =
                   [this](Version version) {
                     return reduces_ == nullptr ? nullptr : reduces_->state_at(version);
                   },
               .on_formation_over =
                   [this](std::uint32_t formation, const std::string& why) {
                     if (reduces_ != nullptr) reduces_->leave(formation, why);
                   },
               .keys = parts.keys,
               .lost = before.lost,
               .last_generation = before.generation,
               .trained = trained_,
               .shards = shard_ranges(parts.tasks.layout(), config_.train.optimizer, config_.cluster.shards),
               .granted_ahead = config_.exchange.hidden,
               .fragments = fragments_},
              parts.tasks.layout(), parts.context, process_cache_) {
  make_reducing();
  for (std::uint32_t t = 0; t < shown_.size(); ++t) {
    watches_.emplace_back(WorkerId(parts.node, t), parts.tasks.computes_on(t));
  }
}

Session::~Session() {
  client_.close(aborted("the session is over"));
  if (reduces_ != nullptr) reduces_->stop();
  parts_.tasks.meet(nullptr);
}

SessionEnd Session::run(NodeTotals& totals) {
  if (parts_.trace != nullptr) parts_.tasks.record_passes(parts_.trace->passes());
  for (std::uint32_t t = 0; t < shown_.size(); ++t) {
    shown_[t].begin(times_of(totals.report().workers[t].phases));
  }
  if (Status shared = check_shared(); !shared.is_ok()) return {shared, client_.lost(), 0};
  // What they train with the threads make before the node joins: with a GPU that takes some 0.4 s, in
  // which all other nodes would wait. Why one of them cannot train is said to the servers like whatever ends
  // a node, so that they name it, and so after the joining.
  std::vector<ThreadResult> results(config_.cluster.threads_per_node);
  PreparedThreads<Trainer> threads(
      config_.cluster.threads_per_node,
      [this](std::uint32_t t) { return make_trainer(WorkerId(parts_.node, t)); },
      [this, &results](std::uint32_t t, Result<Trainer> trainer) {
        train_worker(WorkerId(parts_.node, t), std::move(trainer), results[t]);
        // One worker that cannot go on ends its node: nobody else can do its share.
        if (!results[t].ended.is_ok()) client_.close(results[t].ended);
      });
  const Status ready = await_trainers(threads);
  if (!ready.is_ok() && client_.closed().is_ok()) parts_.log.error(ready.message());
  if (!threads.all_started()) return {ready, client_.lost(), 0};  // nor could those that joining takes
  if (Status started = start(); !started.is_ok()) {
    client_.leave(started);  // some servers may have welcomed this node
    return {ready.is_ok() ? started : ready, client_.lost(), 0};
  }
  if (parts_.node == NodeId(0)) {
    if (Status sent = send_initial_parameters(); !sent.is_ok()) {
      client_.leave(sent);
      return {sent, client_.lost(), 0};
    }
  }

  if (Status met = meet_nodes(); !met.is_ok()) {
    // It ends by the client's end as well, and then that says why.
    if (const Status closed = client_.closed(); !closed.is_ok()) met = client_.run_over().value_or(closed);
    if (met.code() == StatusCode::kUnavailable) {
      met = leave_for_another(met);
    } else {
      client_.leave(met);
    }
    return {met, client_.lost(), 0};
  }

  std::thread evaluator([this] { evaluate(); });
  work_to_the_end(threads);
  for (const ThreadResult& result : results) {
    totals.add(result.done);
  }
  write_trace();
  const Status ended = conclude(results, totals);
  client_.close(aborted("node " + to_string(parts_.node) + " ends"));
  evaluator.join();
  return {ended, client_.lost(), client_.generation()};
}

void Session::stop(const std::string& reason) {
  // The threads end after their running steps; then conclude() says goodbye.
  client_.close(aborted(reason));
}

void Session::remove_slot_files() {
  if (slots_.is_ok() && *slots_ != nullptr) (*slots_)->remove_files();
}

// What the constructor asked of the machine.
Status Session::check_shared() const {
  PACELINE_RETURN_IF_ERROR(slots_.status());
  if (!memory_.is_ok()) {
    if (config_.cluster.shared_memory == SharedMemory::kOn) {
      return Status(memory_.status()).with_context("cluster.shared_memory is on");
    }
    parts_.log.warn("no memory is shared with servers of this machine: " + memory_.status().message());
  }
  return Status::ok();
}

// Until `done` says so, which waits for a second or so each time; what takes long of `waits` is in the log.
void Session::log_waits_until(const std::function<bool()>& done,
                              const std::function<std::vector<Wait>()>& waits) const {
  StallLog stalls;
  const auto publish = [&](const std::vector<Wait>& now) {
    for (const std::string& line : stalls.check(now, steady_now())) parts_.log.info(line);
  };
  for (Ticks checked_at = steady_now(); !done(); checked_at = steady_now()) {
    const auto late = steady_now() - checked_at - kCheckEvery;
    if (late > kCheckEvery) stalls.discount_pause({late, steady_now()});  // this process stood still
    publish(waits());
  }
  publish({});
}

// However long that takes, as with a GPU's driver that hangs.
Status Session::await_trainers(const PreparedThreads<Trainer>& threads) const {
  log_waits_until(
      [&] { return threads.ready_within(kCheckEvery); },
      [&] {
        std::vector<Wait> waits;
        for (const std::uint32_t t : threads.not_ready()) {
          const std::string worker = "worker " + to_string(WorkerId(parts_.node, t));
          const std::string on = parts_.tasks.computes_on(t);
          waits.push_back({"the making of what " + worker + " trains with",
                           worker + " makes what it trains with" + (on.empty() ? "" : " on " + on)});
        }
        return waits;
      });
  return threads.readiness();
}

// While the client is open it tells what they are at for long (own_waits()), together with what it waits for
// itself; after its close, as by a stop, nobody else does.
void Session::work_to_the_end(PreparedThreads<Trainer>& threads) const {
  threads.work();
  log_waits_until([&] { return threads.done_within(kCheckEvery); },
                  [&] { return client_.closed().is_ok() ? std::vector<Wait>() : own_waits(); });
}

Status Session::start() {
  PACELINE_RETURN_IF_ERROR(client_.closed());  // stopped meanwhile: nobody is joined any more
  PACELINE_RETURN_IF_ERROR(client_.start());
  const std::uint64_t generation = client_.generation();
  parts_.log.info("node " + to_string(parts_.node) + " joined " + std::to_string(config_.cluster.shards) +
                  " server(s) with " + std::to_string(config_.cluster.threads_per_node) + " worker(s)" +
                  (generation > 1 ? ", generation " + std::to_string(generation) : ""));
  return Status::ok();
}

// Servers that go on with a run have theirs, and take none.
Status Session::send_initial_parameters() {
  std::vector<float> values(static_cast<std::size_t>(parts_.tasks.layout().size()));
  parts_.tasks.initialize(values);
  const std::string& file = config_.train.init_from;
  if (!file.empty() && client_.generation() == 1) {
    const Result<TensorsTaken> taken = caffe::take_init_from(config_, parts_.tasks.layout(), values);
    if (!taken.is_ok()) return Status(taken.status()).with_context("train.init_from");
    parts_.log.info("the parameters begin with " + file + ": " + to_string(*taken));
  }
  if (client_.generation() == 1 && client_.lack_parameters()) {
    PACELINE_RETURN_IF_ERROR(warm_start(config_, parts_.tasks, values, [&] { return client_.closed(); }));
  }
  client_.send_initial_parameters(std::move(values));
  return Status::ok();
}

Result<Session::Trainer> Session::make_trainer(WorkerId worker) {
  PACELINE_RETURN_IF_ERROR(client_.closed());  // stopped
  const auto of_worker = [worker](const Status& why) {
    return Status(why).with_context("worker " + to_string(worker));
  };
  auto task = parts_.tasks.make_trainer(worker);
  if (!task.is_ok()) return of_worker(task.status());
  // Local steps are taken in the host's memory, from what the thread cache has.
  Result<std::unique_ptr<CacheVectors>> vectors = std::unique_ptr<CacheVectors>();
  if (!config_.train.has_inner_optimizer) {
    vectors = (*task)->make_cache_vectors(config_.train.optimizer, layout_.size());
  }
  if (!vectors.is_ok()) return of_worker(vectors.status());
  if (*vectors == nullptr) {
    *vectors = std::make_unique<HostVectors>(config_.train.optimizer, layout_,
                                             reduces_ != nullptr ? TakenOver::kHeld : TakenOver::kCopied);
  }
  return Trainer{std::move(task).value(), std::move(vectors).value()};
}

step::StepRules Session::step_rules() const {
  const WayToServers way = way_to_servers(config_, client_.shares_memory(), usable_cores());
  return {config_.sync.refresh_clocks,
          pulls_before_push(config_.sync.pull_order, way),
          cache::keeps_own_updates(largest_threshold(config_)),
          config_.train.mini_batch_of_local_steps(),
          config_.exchange.hidden,
          config_.exchange.fragments,
          last_rounds_from(config_)};
}

std::optional<WorkerContext::Local> Session::local_steps() const {
  if (!config_.train.has_inner_optimizer) return std::nullopt;
  return WorkerContext::Local{
      LocalSteps(config_.train.inner_optimizer, layout_),
      config_.train.local_steps,
      config_.train.batch_size,
      [this](std::int64_t iteration) { return inner_rate(config_, iteration); },
      parts_.inner_states,
      parts_.timed_rounds,
      fragments_,
      GradientBuffers(layout_.size(), 1, ReadBy::kTransport, parts_.tasks.gradient_memory(nullptr))};
}

void Session::train_worker(WorkerId worker, Result<Trainer> trainer, ThreadResult& result) {
  result.done.worker = worker;
  if (!trainer.is_ok()) {
    result.ended = trainer.status();
    return;
  }
  // Where none of the servers reads them they may as well lie on the heap, and three are enough.
  const bool shares = client_.shares_memory() && config_.cluster.gradient_encoding == Encoding::kFp32;
  const ReadBy read_by = shares ? ReadBy::kServers : ReadBy::kTransport;
  WorkerContext training{
      .worker = worker,
      .layout = layout_,
      .checks_finite = reduces_ != nullptr ||
                       worker_checks_finite(config_.train.on_nan, config_.cluster.gradient_encoding),
      .batches = batch_limits(config_),
      .deadline = deadline(config_.cluster),
      .coordinator = client_,
      .exchange = reduces_ != nullptr ? static_cast<Exchange&>(*reduces_) : client_,
      .process_cache = process_cache_,
      .task = *trainer->task,
      .pace = pace_,
      .slots = slots_->get(),
      .step = step::WorkerStep(step_rules()),
      .cache = ThreadCache(config_.train.optimizer, process_cache_.ranges(), worker.thread,
                           std::move(trainer->vectors)),
      .gradients =
          GradientBuffers(layout_.size(), gradient_buffers_max(config_, read_by), read_by,
                          parts_.tasks.gradient_memory(shares ? *memory_ : nullptr), late_gradient(config_)),
      .emulator = Emulator(config_.emulate, config_.run.seed, config_.cluster.cluster(), worker,
                           config_.train.batch_size),
      .local = local_steps(),
      .phases =
          PhaseRecorder(steady_now, parts_.trace == nullptr ? nullptr : parts_.trace->spans(worker.thread)),
      .clock = steady_now,
      .shown = &shown_[worker.thread],
      .watch = &watches_[worker.thread],
  };
  const Result<WorkDone> done = run_trainer(training);
  if (parts_.inner_states != nullptr) parts_.inner_states->end(worker.thread, done.is_ok());
  result.ended = done.status();
  result.done = done.is_ok() ? *done : unfinished_work(training);
}

// Thread: the client's.
wire::Heartbeat Session::heartbeat() const {
  wire::Heartbeat beat;
  for (const ShownTimes& thread : shown_) beat.workers.push_back(thread.times());
  if (reduces_ != nullptr) beat.traffic = reduces_->traffic();
  return beat;
}

// Thread: the client's.
std::vector<Wait> Session::own_waits() const {
  std::vector<Wait> waits;
  for (const WorkWatch& thread : watches_) {
    if (auto wait = thread.wait()) waits.push_back(*std::move(wait));
  }
  return waits;
}

// Before the report: once all nodes have reported, the authority looks for what they have written.
void Session::write_trace() {
  if (parts_.trace == nullptr) return;
  const Status written = parts_.trace->write();
  if (!written.is_ok()) parts_.log.warn("no trace of this node: " + written.message());
}

// For whom a stage has waited.
void Session::log_stage_waits() const {
  const StageReport stage = parts_.tasks.stage_report();
  const std::uint32_t stages = config_.pipeline.stages;
  const std::uint32_t node = parts_.node.value;
  const std::uint32_t own = node % stages;
  std::string waits;
  const auto add = [&](bool there, std::uint32_t of_stage, std::uint32_t on, std::chrono::nanoseconds time) {
    if (!there) return;
    waits += (waits.empty() ? "" : ", ") + in_seconds(time) + " for stage " + std::to_string(of_stage) +
             " (node " + std::to_string(on) + ")";
  };
  add(own > 0, own - 1, node - 1, stage.idle_for_previous);
  add(own + 1 < stages, own + 1, node + 1, stage.idle - stage.idle_for_previous);
  parts_.log.info("stage " + std::to_string(own) + " computed for " + in_seconds(stage.busy) +
                  " and waited: " + waits);
}

// After the training threads: reports and waits for the end, or says goodbye.
Status Session::conclude(const std::vector<ThreadResult>& results, const NodeTotals& totals) {
  const bool done =
      std::all_of(results.begin(), results.end(), [](const auto& result) { return result.ended.is_ok(); });
  if (done) send_last_state();
  if (config_.pipeline.enabled()) log_stage_waits();
  if (done) {
    wire::NodeReport report = totals.report();
    report.samples_left_out = parts_.tasks.samples_left_out(parts_.node);
    report.stage = parts_.tasks.stage_report();
    report_reducing(report);
    return client_.finish(report);
  }
  if (const auto over = client_.run_over()) return *over;
  const Status why = client_.closed();
  // Found by a training thread, or by the exchange while that waited for something else.
  const bool by_another = why.code() == StatusCode::kUnavailable ||
                          std::any_of(results.begin(), results.end(), [](const auto& result) {
                            return result.ended.code() == StatusCode::kUnavailable;
                          });
  if (by_another) return leave_for_another(why);
  const bool has_finished = parts_.has_finished && parts_.has_finished();
  client_.leave(why, std::nullopt, Lost::kNothing, has_finished);
  return why;
}

// Whoever still sleeps out an emulated step or evaluates does it for nobody. Thread: whichever closes the
// client.
void Session::on_closed() {
  pace_.stop();
  if (reduces_ != nullptr) reduces_->close(aborted("the client is closed"));
  stop_channels_.set();
  parts_.tasks.stop_evaluating();
  if (slots_.is_ok() && *slots_ != nullptr) (*slots_)->stop();
}

}  // namespace paceline
