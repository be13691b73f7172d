#include "worker/node.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "common/incarnation.h"
#include "common/ticks.h"
#include "common/wire/memory.h"
#include "worker/node_memory.h"
#include "worker/node_totals.h"
#include "worker/node_trace.h"
#include "worker/session.h"

namespace paceline {
namespace {

// Null where the run has no keys.
Result<std::shared_ptr<const wire::ClientKeys>> keys_of(const RunConfig& config, NodeId node) {
  if (config.security.keys.empty()) return std::shared_ptr<const wire::ClientKeys>();
  PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_node_keys(config.security.keys, node.value));
  return std::make_shared<const wire::ClientKeys>(std::move(keys));
}

}  // namespace

class Node::Impl {
 public:
  Impl(const RunConfig& config, NodeId node, wire::Context& context, std::unique_ptr<TaskFactory> tasks,
       Log log, const NodeOptions& options)
      : config_(config),
        node_(node),
        tasks_(std::move(tasks)),
        log_(std::move(log)),
        keys_(keys_of(config_, node)),
        inner_states_(config_, node, part_of(tasks_->layout(), tasks_->trained_by(node)), log_, steady_now),
        timed_rounds_(config_.train.local_time.value_or(Duration(0)), options.local_time_source,
                      config_.cluster.threads_per_node, log_),
        trace_(config_.run.trace ? std::make_unique<NodeTrace>(config_, node) : nullptr),
        parts_{config_,
               node,
               context,
               *tasks_,
               log_,
               new_incarnation(),
               options.floats_at_once,
               keys_.is_ok() ? *keys_ : nullptr,
               trace_.get(),
               &inner_states_,
               config_.train.local_time ? &timed_rounds_ : nullptr,
               options.has_finished} {}

  bool has_trained() const { return has_trained_; }

  // One session after another, for as long as servers are lost and others come.
  Status run() {
    PACELINE_RETURN_IF_ERROR(keys_.status());
    tasks_->warn_to([log = log_](const std::string& what) { log.warn(what); });
    if (config_.cluster.huge_pages) {
      wire::prefer_huge_pages(usual_bytes(config_, tasks_->layout().size()));
    }
    NodeTotals totals(node_, config_.cluster.threads_per_node);
    SessionEnd before;
    for (;;) {
      SessionEnd end = run_session(before, totals);
      has_joined_ = has_joined_ || end.generation != 0;
      if (!may_go_on(end)) return conclude(before, end);
      log_.warn(end.status.message() + "; waiting up to " + reconnect_seconds() +
                " s for servers that go on with the run (cluster.reconnect_timeout)");
      before = std::move(end);
    }
  }

  void request_stop(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (stopped_.is_ok()) stopped_ = aborted(reason);
    if (session_ != nullptr) session_->stop(reason);
  }

 private:
  SessionEnd run_session(const SessionEnd& before, NodeTotals& totals) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_.is_ok()) return {stopped_};
      session_ = std::make_unique<Session>(parts_, before);
    }
    SessionEnd end = session_->run(totals);
    // A worker that was granted something says that all nodes had joined, with their slots open.
    has_trained_ = totals.report().parameter_reads > 0;
    if (!may_go_on(end) && has_trained_) session_->remove_slot_files();
    // The last one stays as long as the node: servers that live may still read what it has lent them.
    if (!may_go_on(end)) {
      session_->disconnect();
      return end;
    }
    std::unique_ptr<Session> over;  // goes without the lock, which a stop may wait for
    const std::lock_guard lock(mutex_);
    over.swap(session_);
    return end;
  }

  // A node that was told to stop is not closed for a loss.
  bool may_go_on(const SessionEnd& end) const {
    const bool joined = end.generation != 0;
    return joined && end.lost != Lost::kNothing && config_.cluster.reconnect_timeout > Duration(0);
  }
  std::string reconnect_seconds() const {
    return std::to_string(std::chrono::ceil<std::chrono::seconds>(config_.cluster.reconnect_timeout).count());
  }

  // Why it is the last session; of one that never began, also why there had to be another one.
  Status conclude(const SessionEnd& before, const SessionEnd& last) {
    Status ended = last.status;
    const std::lock_guard lock(mutex_);
    if (before.lost != Lost::kNothing && last.generation == 0 && stopped_.is_ok()) {
      ended = Status(ended.code(), ended.message() + "; before: " + before.status.message());
    }
    if (has_joined_) {
      log_.info("node " + to_string(node_) +
                " ends: " + (ended.is_ok() ? "the run is over" : ended.message()));
    }
    return ended;
  }

  const RunConfig config_;
  const NodeId node_;
  const std::unique_ptr<TaskFactory> tasks_;
  const Log log_;
  const Result<std::shared_ptr<const wire::ClientKeys>> keys_;
  InnerStates inner_states_;
  TimedRounds timed_rounds_;                // where rounds end by time
  const std::unique_ptr<NodeTrace> trace_;  // null: run.trace is off
  const SessionParts parts_;                // refers to the above
  std::mutex mutex_;                        // run() begins and ends sessions while request_stop() may come
  bool has_joined_ = false;                 // servers have let it in
  bool has_trained_ = false;
  Status stopped_;
  std::unique_ptr<Session> session_;
};

Node::Node(const RunConfig& config, NodeId node, wire::Context& context, std::unique_ptr<TaskFactory> tasks,
           Log log, NodeOptions options)
    : impl_(std::make_unique<Impl>(config, node, context, std::move(tasks), std::move(log), options)) {}
Node::~Node() = default;

Status Node::run() { return impl_->run(); }
bool Node::has_trained() const { return impl_->has_trained(); }
void Node::request_stop(const std::string& reason) { impl_->request_stop(reason); }

}  // namespace paceline
