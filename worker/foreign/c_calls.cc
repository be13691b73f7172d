#include "worker/foreign/c_calls.h"

#include <pthread.h>

#include <cstddef>
#include <utility>

#include "common/config/daemon_options.h"

namespace paceline {
namespace {

// Of the thread's last call that failed.
thread_local std::string error_text;

paceline_code code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return PACELINE_OK;
    case StatusCode::kInvalidArgument:
      return PACELINE_INVALID_ARGUMENT;
    case StatusCode::kFailedPrecondition:
      return PACELINE_FAILED_PRECONDITION;
    case StatusCode::kNotFound:
      return PACELINE_NOT_FOUND;
    case StatusCode::kUnavailable:
      return PACELINE_UNAVAILABLE;
    case StatusCode::kDeadlineExceeded:
      return PACELINE_DEADLINE_EXCEEDED;
    case StatusCode::kResourceExhausted:
      return PACELINE_RESOURCE_EXHAUSTED;
    case StatusCode::kAborted:
      return PACELINE_ABORTED;
    case StatusCode::kOutOfOrder:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      return PACELINE_INTERNAL;
  }
  return PACELINE_INTERNAL;
}

}  // namespace

paceline_code end_call(paceline_code code, std::string text) {
  error_text = std::move(text);
  return code;
}
paceline_code end_call(const Status& status) {
  return status.is_ok() ? PACELINE_OK : end_call(code_of(status.code()), status.message());
}
const char* last_error() { return error_text.c_str(); }

NoSignals::NoSignals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}
NoSignals::~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Result<RunConfig> config_of(const paceline_options* options, const char* of_call, LoadFor what) {
  if (options == nullptr || (options->file == nullptr) == (options->text == nullptr)) {
    return invalid_argument(std::string(of_call) +
                            ": expected a configuration, either as `file` or as `text`");
  }
  DaemonOptions given;
  for (std::size_t i = 0; i < options->overrides_count; ++i) {
    given.overrides.emplace_back(options->overrides[i]);
  }
  given.index = options->node;
  given.config_path = options->file != nullptr ? options->file : "text";
  PACELINE_ASSIGN_OR_RETURN(RunConfig config,
                            options->file != nullptr
                                ? load_config(given.config_path, given.overrides, what)
                                : parse_config(options->text, given.config_path, given.overrides, what));
  if (what == LoadFor::kDaemons) return check_daemon_config(DaemonRole::kWorker, given, std::move(config));
  if (options->node < config.cluster.nodes) return config;
  return invalid_argument(std::string(of_call) + ": no such node, got " + std::to_string(options->node) +
                          ", expected 0 to " + std::to_string(config.cluster.nodes - 1) + " (cluster.nodes)");
}

Status check_one_worker(const RunConfig& config) {
  if (config.cluster.threads_per_node == 1) return Status::ok();
  return invalid_argument("cluster.threads_per_node: a training loop is one worker, got " +
                          std::to_string(config.cluster.threads_per_node) +
                          ", expected 1 (a node for each loop)");
}

}  // namespace paceline
