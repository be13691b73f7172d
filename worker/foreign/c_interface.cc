// include/paceline/paceline.h over a Node whose task is the caller's loop (foreign_loop.h). With c_stage.cc the only
// file that knows both; what is wrong is said as a code and a text, and no exception leaves.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/log/log.h"
#include "common/process/line_writer.h"
#include "common/wire/codec.h"
#include "common/wire/keys.h"
#include "common/wire/transport.h"
#include "include/paceline/paceline.h"
#include "worker/foreign/c_calls.h"
#include "worker/foreign/c_worker.h"
#include "worker/foreign/foreign_loop.h"
#include "worker/foreign/foreign_network.h"
#include "worker/foreign/foreign_stage.h"
#include "worker/foreign/loop_checks.h"
#include "worker/node.h"
#include "worker/node_log.h"

namespace paceline {
namespace {

std::optional<std::chrono::nanoseconds> patience_of(std::int64_t timeout_ms) {
  if (timeout_ms < 0) return std::nullopt;
  constexpr std::int64_t kLongestMs = std::int64_t{1000} * 60 * 60 * 24 * 365;
  return std::chrono::milliseconds(std::min(timeout_ms, kLongestMs));
}

ExistingLog existing_log(paceline_existing existing) {
  switch (existing) {
    case PACELINE_REPLACE:
      return ExistingLog::kIsReplaced;
    case PACELINE_CONTINUE:
      return ExistingLog::kIsContinued;
    case PACELINE_REFUSE:
      break;
  }
  return ExistingLog::kIsRefused;
}

Result<TensorRole> role_of(paceline_role role) {
  switch (role) {
    case PACELINE_WEIGHT:
      return TensorRole::kWeight;
    case PACELINE_BIAS:
      return TensorRole::kBias;
    case PACELINE_NORM:
      return TensorRole::kNorm;
    case PACELINE_BUFFER:
      return TensorRole::kBuffer;
  }
  return invalid_argument("no such role: got " + std::to_string(static_cast<int>(role)) +
                          ", expected 0 to 3");
}

}  // namespace
}  // namespace paceline

using namespace paceline;

namespace {

// On the command line its default, too, would say that the run has a model. A file may be one that was printed, or a
// run's own config.yaml: those have each key.
Status check_no_model_given(const std::string& where) {
  if (where != "command line") return Status::ok();
  return invalid_argument(where + ": train.model: the training loop brings the model, expected none");
}

Status open(const paceline_options* options, paceline_worker** worker) {
  if (worker == nullptr) return invalid_argument("paceline_open: got no place for the worker");
  *worker = nullptr;
  PACELINE_ASSIGN_OR_RETURN(RunConfig config, config_of(options, "paceline_open", LoadFor::kDaemons));
  PACELINE_RETURN_IF_ERROR(check_loop(config));
  // The memory of the process is the caller's.
  config.cluster.huge_pages = false;
  auto made = std::make_unique<paceline_worker>(std::move(config), NodeId(options->node));
  if (const std::string& keys = made->config.security.keys; !keys.empty()) {
    PACELINE_RETURN_IF_ERROR(wire::read_node_keys(keys, made->node.value).status());
  }
  if (options->file != nullptr) {
    const std::vector<std::string> overrides(options->overrides,
                                             options->overrides + options->overrides_count);
    PACELINE_RETURN_IF_ERROR(check_no_model_given(source_of(options->file, overrides, "train.model")));
    if (made->config.train.local_time)
      made->options.local_time_source = source_of(options->file, overrides, "train.local_time");
  }
  // Made at the start: a loop that describes its model wrongly leaves nothing behind.
  made->existing = existing_log(options->existing);
  if (made->existing == ExistingLog::kIsRefused)
    PACELINE_RETURN_IF_ERROR(check_unused(made->config, made->node));
  *worker = made.release();
  return Status::ok();
}

// On threads that take no signals.
Status open_log(paceline_worker& w) {
  PACELINE_ASSIGN_OR_RETURN(w.node_log, prepare_node_log(w.config, w.node, w.existing));
  const std::string program = "paceline-worker " + to_string(w.node);
  w.errors.emplace(program);
  PACELINE_ASSIGN_OR_RETURN(w.log, Log::open(w.node_log.file, program, w.config.run.log_level,
                                             Log::Begin::kAppend, w.errors->writer()));
  if (!w.node_log.warning.empty()) w.log.warn(w.node_log.warning);
  return Status::ok();
}

Status start(paceline_worker& w, std::span<const float> initial) {
  if (w.started()) return failed_precondition("paceline_start: the worker has started already");
  if (w.layout.size() == 0) return invalid_argument("paceline_start: the layout has no tensor");
  if (std::ssize(initial) != w.layout.size()) {
    return invalid_argument("paceline_start: got " + std::to_string(initial.size()) +
                            " initial values, expected " + std::to_string(w.layout.size()) +
                            " as the layout has");
  }
  PACELINE_RETURN_IF_ERROR(check_model(w.config, w.layout));
  if (w.config.pipeline.enabled() != (w.stage != nullptr)) {
    return failed_precondition("pipeline.stages: got " + std::to_string(w.config.pipeline.stages) +
                               (w.stage != nullptr ? " and a stage" : ", and no stage of the loop's model"));
  }
  std::vector<float> values;  // asked of node 0 alone
  if (w.node == NodeId(0)) values.assign(initial.begin(), initial.end());
  const NoSignals none;
  PACELINE_RETURN_IF_ERROR(open_log(w));
  w.options.has_finished = [&w] { return w.has_finished.load(); };
  w.context.emplace();
  w.running = std::make_unique<Node>(
      w.config, w.node, *w.context,
      std::make_unique<ForeignTasks>(w.loop, w.layout, std::move(values), w.evaluate, w.stage.get()), w.log,
      w.options);
  w.thread = std::thread([&w] {
    Status ended = Status::ok();
    try {
      ended = w.running->run();
      w.context.reset();  // what the node said last has left: who waits for its end may end the process
    } catch (const std::exception& error) {  // no memory, no thread: the process is not ours to end
      ended = resource_exhausted(std::string("the node ends: ") + error.what());
    }
    if (!ended.is_ok() && !w.loop.gave_up()) {  // who gives up knows why
      const bool stopped = ended.code() == StatusCode::kAborted;
      w.log.write(stopped ? LogLevel::kWarn : LogLevel::kError, ended.message());
    }
    if (!w.running->has_trained()) forget_node_log(w.node_log, w.existing);
    w.loop.node_ended(ended);
  });
  return Status::ok();
}

Status add_tensor(paceline_worker& w, const char* name, std::span<const std::int64_t> shape,
                  paceline_role role, int trainable, double lr_factor, double decay_factor) {
  const std::string tensor = name == nullptr ? "" : name;
  if (w.started()) {
    return failed_precondition("tensor '" + tensor +
                               "' comes after the start: the layout of a run does not change");
  }
  PACELINE_ASSIGN_OR_RETURN(const TensorRole is, role_of(role));
  if (trainable < PACELINE_FIXED || trainable > PACELINE_MAY_BE_UNUSED) {
    return invalid_argument("tensor '" + tensor + "': trainable: got " + std::to_string(trainable) +
                            ", expected 0, 1 or 2");
  }
  return w.layout
      .add(tensor, {shape.begin(), shape.end()},
           {.role = is,
            .lr_factor = trainable == PACELINE_FIXED ? 0.0 : lr_factor,
            .decay_factor = trainable == PACELINE_FIXED ? 0.0 : decay_factor,
            .may_be_unused = trainable == PACELINE_MAY_BE_UNUSED})
      .status();
}

Status add_network(paceline_worker& w, const paceline_network* network) {
  if (w.started()) {
    return failed_precondition("a network comes after the start: the layout of a run does not change");
  }
  if (network == nullptr) return invalid_argument("paceline_add_network: got no network, expected one");
  Layout whole = w.layout;  // all of it, or nothing
  for (const Tensor& tensor : network->network->spec().layout.tensors()) {
    PACELINE_RETURN_IF_ERROR(whole.add(tensor.name, tensor.shape, tensor.traits).status());
  }
  w.layout = std::move(whole);
  return Status::ok();
}

paceline_code begin(paceline_worker& w, std::int64_t timeout_ms, paceline_round& round) {
  if (!w.started())
    return end_call(PACELINE_FAILED_PRECONDITION, "paceline_begin: paceline_start() comes first");
  if (w.loop.under_way()) {
    return end_call(PACELINE_FAILED_PRECONDITION,
                    "paceline_begin: a round is under way, paceline_finish() comes first");
  }
  switch (w.loop.begin(patience_of(timeout_ms), w.round)) {
    case ForeignLoop::Waited::kTimedOut:
      return end_call(PACELINE_TIMED_OUT, "no round may begin yet");
    case ForeignLoop::Waited::kOver:
      return w.over();
    case ForeignLoop::Waited::kRound:
      break;
  }
  w.has_begun = true;
  w.stepped = false;
  w.left_from = std::ssize(w.round.gradient);
  const Step& step = w.round.step;
  round = {w.round.parameters.data(), w.round.gradient.data(), std::ssize(w.round.parameters),
           step.clock.value,          step.iteration,          step.batch.position,
           step.batch.samples};
  return PACELINE_OK;
}

Status copy_gradient(paceline_worker& w, std::int64_t first, const float* values, std::int64_t count) {
  PACELINE_RETURN_IF_ERROR(w.check_under_way());
  const std::int64_t floats = std::ssize(w.round.gradient);
  if (values == nullptr || first < 0 || count < 0 || first > floats || count > floats - first) {
    return invalid_argument("paceline_copy_gradient: got " + std::to_string(count) + " floats from element " +
                            std::to_string(first) + " on" + (values == nullptr ? ", at NULL" : "") +
                            ", expected some within [0, " + std::to_string(floats) + "]");
  }
  if (count > 0 && first + count > w.left_from) {
    return invalid_argument("paceline_copy_gradient: got elements up to " + std::to_string(first + count) +
                            ", expected none from " + std::to_string(w.left_from) + " on, which are final");
  }
  w.loop.copy(first, {values, static_cast<std::size_t>(count)});
  return Status::ok();
}

Status final_from(paceline_worker& w, std::int64_t first) {
  PACELINE_RETURN_IF_ERROR(w.check_under_way());
  const std::int64_t floats = std::ssize(w.round.gradient);
  if (first < 0 || first > floats) {
    return invalid_argument("the gradient is final from element " + std::to_string(first) +
                            ", expected one in [0, " + std::to_string(floats) + "]");
  }
  w.left_from = std::min(w.left_from, first);
  w.loop.final_from(first);
  return Status::ok();
}

// What a message takes.
Result<Metric> checked(const paceline_metric& metric, const char* where) {
  const Metric measured{metric.loss_sum, metric.correct, metric.samples};
  if (metric.samples >= 1 && metric.samples <= wire::kSamplesMax && measured.counts_samples()) {
    return measured;
  }
  return invalid_argument(std::string(where) + ": " + std::to_string(metric.correct) + " correct of " +
                          std::to_string(metric.samples) +
                          " samples, expected at least one sample, and no more correct than that");
}

Status finish(paceline_worker& w, const paceline_metric* metric) {
  PACELINE_RETURN_IF_ERROR(w.check_under_way());
  if (metric == nullptr) return invalid_argument("paceline_finish: no metric, expected one");
  if (w.stage != nullptr && !w.stepped) {
    return failed_precondition("paceline_finish: paceline_step_stages() comes first, other stages wait");
  }
  PACELINE_ASSIGN_OR_RETURN(const Metric done, checked(*metric, "paceline_finish"));
  w.loop.finish(done);
  return Status::ok();
}

paceline_code end(paceline_worker& w, const char* why, std::int64_t timeout_ms) {
  if (!w.started()) return PACELINE_OK;
  const std::string reason = why == nullptr ? "its training loop has ended" : why;
  if (why == nullptr && !w.loop.gave_up()) w.has_finished = true;
  w.loop.give_up(aborted(reason));
  if (why != nullptr) w.running->request_stop(reason);
  const auto ended = w.loop.await_end(patience_of(timeout_ms));
  if (!ended) return end_call(PACELINE_TIMED_OUT, "the node has not ended yet");
  if (w.is_stopped || (why == nullptr && w.was_stopped(*ended)))
    return end_call(PACELINE_STOPPED, ended->message());
  return end_call(*ended);
}

}  // namespace

const char* paceline_version(void) { return PACELINE_VERSION; }

const char* paceline_error(void) { return last_error(); }

paceline_code paceline_open(const paceline_options* options, paceline_worker** worker) {
  return guarded([&] { return open(options, worker); });
}

paceline_code paceline_value(paceline_worker* worker, const char* key, const char** value) {
  return guarded([&]() -> Status {
    PACELINE_ASSIGN_OR_RETURN(worker->value, value_of(worker->config, key));
    *value = worker->value.c_str();
    return Status::ok();
  });
}

paceline_code paceline_add_tensor(paceline_worker* worker, const char* name, const std::int64_t* shape,
                                  std::size_t dimensions, paceline_role role, int trainable, double lr_factor,
                                  double decay_factor) {
  return guarded([&] {
    return add_tensor(*worker, name, {shape, dimensions}, role, trainable, lr_factor, decay_factor);
  });
}

paceline_code paceline_add_network(paceline_worker* worker, const paceline_network* network) {
  return guarded([&] { return add_network(*worker, network); });
}

paceline_code paceline_on_evaluate(paceline_worker* worker, paceline_evaluate evaluate, void* context) {
  return guarded([&]() -> Status {
    if (worker->started()) return failed_precondition("paceline_on_evaluate: the worker has started already");
    if (evaluate == nullptr) {
      worker->evaluate = nullptr;
      return Status::ok();
    }
    worker->evaluate = [evaluate, context](std::span<const float> parameters) -> Result<Metric> {
      paceline_metric metric{};
      if (evaluate(context, parameters.data(), std::ssize(parameters), &metric) != 0) {
        return internal_error("the loop's evaluate function failed");
      }
      return checked(metric, "the loop's evaluate function");
    };
    return Status::ok();
  });
}

paceline_code paceline_start(paceline_worker* worker, const float* initial, std::int64_t floats) {
  return guarded(
      [&] { return start(*worker, {initial, static_cast<std::size_t>(std::max<std::int64_t>(floats, 0))}); });
}

paceline_code paceline_begin(paceline_worker* worker, std::int64_t timeout_ms, paceline_round* round) {
  return guarded([&] { return begin(*worker, timeout_ms, *round); });
}

paceline_code paceline_copy_gradient(paceline_worker* worker, std::int64_t first, const float* values,
                                     std::int64_t floats) {
  return guarded([&] { return copy_gradient(*worker, first, values, floats); });
}

paceline_code paceline_final_from(paceline_worker* worker, std::int64_t first) {
  return guarded([&] { return final_from(*worker, first); });
}

paceline_code paceline_finish(paceline_worker* worker, const paceline_metric* metric) {
  return guarded([&] { return finish(*worker, metric); });
}

paceline_code paceline_end(paceline_worker* worker, const char* why, std::int64_t timeout_ms) {
  return guarded([&] { return end(*worker, why, timeout_ms); });
}

paceline_code paceline_warn(paceline_worker* worker, const char* text) {
  return guarded([&] {
    if (!worker->started()) return failed_precondition("paceline_warn: paceline_start() comes first");
    worker->log.warn(text == nullptr ? "" : text);
    return Status::ok();
  });
}

void paceline_close(paceline_worker* worker) { delete worker; }
