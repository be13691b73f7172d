// Session: a node's time with servers of one generation of the run: its threads make what they train with, it
// joins the servers, trains and evaluates until the run is over, and reports; or until they are lost. Nothing
// of it is carried into the next session but what has been counted: the next servers know nothing of what
// these were sent since their checkpoint, so connections, caches, own updates, gradients on their way and
// running steps are dropped, and every worker goes on with what it is granted then; but an inner optimizer's state
// goes on from that checkpoint, too (train/inner_states.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/status.h"
#include "common/step/worker_step.h"
#include "common/task/task.h"
#include "common/timing/phase_times.h"
#include "common/wire/shared_memory.h"
#include "common/wire/transport.h"
#include "worker/allreduce/allreduce_exchange.h"
#include "worker/cache/process_cache.h"
#include "worker/client/ps_client.h"
#include "worker/emulate/compute_slots.h"
#include "worker/emulate/pace.h"
#include "worker/exchange/evaluations.h"
#include "worker/mesh/channels.h"
#include "worker/node_totals.h"
#include "worker/node_trace.h"
#include "worker/prepared_threads.h"
#include "worker/train/inner_states.h"
#include "worker/train/timed_rounds.h"
#include "worker/train/train_step.h"
#include "worker/train/work_done.h"
#include "worker/train/work_watch.h"

namespace paceline {

// What a node's sessions have in common. All of it outlives them.
struct SessionParts {
  const RunConfig& config;
  NodeId node;
  wire::Context& context;
  TaskFactory& tasks;
  const Log& log;
  std::uint64_t incarnation = 0;                 // of this process
  std::optional<std::int64_t> floats_at_once;    // NodeOptions
  std::shared_ptr<const wire::ClientKeys> keys;  // null where the run has none
  NodeTrace* trace = nullptr;                    // null: nothing is recorded
  InnerStates* inner_states = nullptr;  // null: an inner optimizer's state is not kept for another session
  TimedRounds* timed_rounds = nullptr;  // null: rounds do not end by time
  std::function<bool()> has_finished;   // NodeOptions
  // That a device does not read servers' memory by itself is logged by whichever session it happens in first.
  std::shared_ptr<std::once_flag> pin_failure_logged = std::make_shared<std::once_flag>();
};

// How a session ended.
struct SessionEnd {
  Status status;
  Lost lost = Lost::kNothing;    // because of these servers: others may follow
  std::uint64_t generation = 0;  // of its servers; 0: they had not all welcomed this node
};

class Session {
 public:
  // `before`: how the last session in which servers were joined ended; one of the first: nothing was lost.
  Session(const SessionParts& parts, const SessionEnd& before);
  // What is called when the client closes is not called after the end of what it would close: its thread has ended
  // before any of that goes, and before the client goes no thread is left that would close it.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // To its end, on the calling thread. Once. Adds to `totals` what its workers have done, and reports those.
  // `status` is OK when the run ended well; errors: those of Node::run().
  SessionEnd run(NodeTotals& totals);
  // Ends it: running steps are finished (an emulated one is cut short), the servers are told. Thread: any.
  void stop(const std::string& reason);
  // Closes its connections; what it has lent to servers stays. After run().
  void disconnect() { client_.disconnect(); }
  // Removes what all nodes of the machine emulate a cluster with: the run is over for this one.
  void remove_slot_files();

 private:
  // What a training thread leaves behind.
  struct ThreadResult {
    Status ended = unavailable("the thread did not run");
    WorkDone done;
  };

  struct Trainer;

  Status check_shared() const;
  void log_waits_until(const std::function<bool()>& done,
                       const std::function<std::vector<Wait>()>& waits) const;
  Status await_trainers(const PreparedThreads<Trainer>& threads) const;
  void work_to_the_end(PreparedThreads<Trainer>& threads) const;
  Status start();
  Status send_initial_parameters();
  void log_stage_waits() const;
  // ---- session_meeting.cc
  Result<mesh::Listening> listen() const;
  Status meet_nodes();
  Status connect_nodes(const mesh::Listening& listening);
  Status check_key(const mesh::Place& place) const;
  void meet_peers(mesh::PeerConnections connections, mesh::Place place);
  std::optional<NodeId> gone() const;
  Status leave_for_another(const Status& why);
  // ---- session_reducing.cc
  void make_reducing();
  Status begin_reducing(const Status& connected);
  // A version is asked for, or will be. Thread: the client's.
  void keep_version(Version version);
  // Thread: the exchange's.
  void reducing_failed(const Status& why);
  Result<AllReduceExchange::Meeting> meet_again(const AllReduceExchange::Parting& parting);
  void log_formation(const AllReduceExchange::Meeting& meeting);
  void send_last_state();
  void report_reducing(wire::NodeReport& report) const;
  // ---- session_evaluations.cc
  class AskedFor;
  void evaluate();
  // All-reduce.
  Status fetch_reduced(const EvaluationRequest& request, std::span<float> flat);
  // ---- session.cc
  // Thread: the one that trains with it.
  Result<Trainer> make_trainer(WorkerId worker);
  step::StepRules step_rules() const;
  std::optional<WorkerContext::Local> local_steps() const;
  void train_worker(WorkerId worker, Result<Trainer> trainer, ThreadResult& result);
  void write_trace();
  Status conclude(const std::vector<ThreadResult>& results, const NodeTotals& totals);
  void on_closed();

  wire::Heartbeat heartbeat() const;
  std::vector<Wait> own_waits() const;

  const SessionParts parts_;
  const RunConfig& config_;
  std::vector<ShownTimes> shown_;       // of each thread, for heartbeat()
  std::deque<WorkWatch> watches_;       // of each thread, for own_waits()
  const Range trained_;                 // of the layout: what this node does
  const Layout layout_;                 // of that
  const std::vector<Range> fragments_;  // of it (exchange.fragments)
  ProcessCache process_cache_;
  const Result<std::shared_ptr<wire::SharedSegment>> memory_;  // outlived by what lies in it
  const Result<std::shared_ptr<ComputeSlots>> slots_;          // null where no cluster is emulated
  SteadyPaceClock pace_;
  mesh::StopFlag stop_channels_;  // to other stages
  std::optional<NodeId> unmet_;   // who was gone when this node was to be connected to it
  // Then these stand until the others know: to them this node would be gone as well.
  std::optional<mesh::Listening> listening_;
  std::shared_ptr<const void> begun_;
  std::shared_ptr<mesh::Channels> channels_;
  std::unique_ptr<AllReduceExchange> reduces_;  // exchange.kind: allreduce; else null
  PsClient client_;
};

}  // namespace paceline
