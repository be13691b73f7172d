// What a paceline_worker of the C interface is: a Node on a thread of its own, whose task is the caller's loop. Thread:
// one at a time, the caller's, but for what `thread` does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/process/line_writer.h"
#include "common/wire/transport.h"
#include "include/paceline/paceline.h"
#include "worker/foreign/c_calls.h"
#include "worker/foreign/foreign_loop.h"
#include "worker/foreign/foreign_stage.h"
#include "worker/node.h"
#include "worker/node_log.h"

namespace paceline {

struct ForeignWorker {
  ForeignWorker(RunConfig the_config, NodeId the_node) : config(std::move(the_config)), node(the_node) {}
  ~ForeignWorker() {
    if (!thread.joinable()) return;
    loop.give_up(aborted("closed"));
    running->request_stop("closed");
    thread.join();
  }
  ForeignWorker(const ForeignWorker&) = delete;
  ForeignWorker& operator=(const ForeignWorker&) = delete;

  bool started() const { return thread.joinable(); }
  Status check_under_way() const {
    if (loop.under_way()) return Status::ok();
    return failed_precondition("no round is under way: paceline_begin() comes first");
  }
  // Whether the servers told the node so that has ended: what it was told itself, its loop has given up for.
  bool was_stopped(const Status& ended) const {
    if (!has_begun || ended.code() != StatusCode::kAborted) return false;
    const Status own = loop.given_up();
    return own.is_ok() || ended.message().find(own.message()) == std::string::npos;
  }
  // How the node ended.
  paceline_code over() {
    const Status ended = *loop.ended();
    is_stopped = is_stopped || was_stopped(ended);
    if (is_stopped) return end_call(PACELINE_STOPPED, ended.message());
    return ended.is_ok() ? end_call(PACELINE_FINISHED, "the run is over") : end_call(ended);
  }

  RunConfig config;
  const NodeId node;
  NodeOptions options = {};
  ExistingLog existing = ExistingLog::kIsRefused;
  std::optional<StandardError> errors;
  NodeLog node_log;
  Log log;
  Layout layout;
  ForeignTasks::Evaluate evaluate;
  std::unique_ptr<ForeignStage> stage;    // of a pipeline; else null
  std::function<Status()> while_waiting;  // while it waits for other stages
  bool stepped = false;                   // the stage has, in the round under way
  std::string value;                      // paceline_value()
  ForeignLoop loop;
  ForeignLoop::Round round;                // while one is under way
  bool has_begun = false;                  // a first round
  bool is_stopped = false;                 // the loop was told of that
  std::atomic<bool> has_finished = false;  // it has come to its own end; the node's thread asks
  std::int64_t left_from = 0;              // its gradient's elements from there on are final
  std::optional<wire::Context> context;
  std::unique_ptr<Node> running;
  std::thread thread;  // in running->run()
};

}  // namespace paceline

struct paceline_worker : paceline::ForeignWorker {
  using ForeignWorker::ForeignWorker;
};
