// Every message of Paceline, as a plain struct; those between servers are in server_messages.h. A message on the wire
// is one header frame (these fields, in protobuf) and at most one payload frame of <= 1 MiB: floats, as
// common/encode/encoding.h says. docs/PROTOCOL.md describes them byte by byte; only the codec (codec.cc) knows how they
// are encoded.
//
// Who talks to whom:
//   node -> every server   Join, InitialParameters (node 0), Push, Withdraw, Pull, Heartbeat, Leave
//   node -> authority      NodeReady, Peers, StepReport, EvaluationReport, NodeReport, Error (all-reduce)
//   node <-> its server    StateWanted, NodeState (all-reduce)
//   server -> node         Welcome, Parameters, Unchanged, Heartbeat, Error
//   authority -> node      Peers, Grant, HeldNotice, FinishWorker, Evaluate, RunOver
//   shard -> authority     ShardJoin, ShardReady, GradientArrived, NodeLost, Parameters, Saved, ShardReport,
//                          StopRun, Reconfigure, Heartbeat, Leave
//   replica -> primary     ReplicaJoin, FilePull, LogAck, Heartbeat
//   primary -> replica     ReplicaResumes, FilePiece, ReplicaWelcome, LocalEvent, what was said to it (LogEntry),
//                          RunOver, Heartbeat
//   authority -> shard     ShardWelcome, ApplyDecision, DiscardGradient, NodeLost, NodeAdmitted, Pull,
//                          Release, ForgetSaved, RunOver, Heartbeat
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/assert.h"
#include "common/clock.h"
#include "common/encode/encoding.h"
#include "common/encode/payload.h"
#include "common/formation_key.h"
#include "common/ids.h"
#include "common/loss_scale.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/sync/modes.h"
#include "common/task/stage_report.h"
#include "common/timing/phase_times.h"
#include "common/timing/phase_totals.h"
#include "common/traffic.h"
#include "common/wire/protocol.h"
#include "common/wire/server_messages.h"

namespace paceline::wire {

using paceline::Payload;

// ---- start-up

// A node introduces itself, to every server. Incarnation: a random number of this process, so that a
// restarted node is told from its dead self. Answered by Welcome or Error.
struct Join {
  std::uint32_t protocol_version = kProtocolVersion;
  NodeId node{};
  std::uint64_t incarnation = 0;
  std::uint32_t threads = 0;
  std::uint64_t config_fingerprint = 0;  // common/config: what all daemons must agree on
  std::uint64_t layout_hash = 0;
  std::vector<Tensor> tensors{};       // the layout itself; offsets are not sent
  std::uint64_t data_fingerprint = 0;  // common/task: what the nodes' data must agree on
  std::uint64_t last_generation = 0;   // of the last Welcome of this process; 0: it has had none
  // Not 0: this server has welcomed this process into that generation, over a connection that broke, and the
  // process goes on where it stood; so many gradients it says again after its Welcome, as far as it knows.
  std::uint64_t goes_on = 0;
  std::int64_t gradients_again = 0;
  // Which of this process's connections to this server it is said over, counted from 1: of two that are read
  // in another order than they were made, the later one counts.
  std::int64_t connection = 1;
  // What the fingerprint is of (common/config/load.h, settings()): a mismatch is told by key.
  std::vector<std::string> settings{};
};

// A server accepts a node: the range of the flat vector it holds. `generation` of the run: 1, and one more
// with each resume. `initialized`: the server has its parameters, from a checkpoint or since another join, so
// node 0 sends it none. `under_way`: by the authority, training has begun: the node takes part from its
// NodeReady on.
struct Welcome {
  ShardId shard{};
  Range range{};
  std::uint64_t generation = 1;
  bool initialized = false;
  bool under_way = false;
};

// All servers have welcomed this node, of which the authority has said that training is under way: its
// workers may be granted iterations.
struct NodeReady {};

// Node 0's initial values for a server's range; `offset` counts floats from the range's begin. Payload: the
// floats.
struct InitialParameters {
  std::int64_t offset = 0;
  bool last = false;
};

// Nodes that talk to each other. A node says where others reach it, one endpoint, after its Welcome; once all have,
// the authority tells all of them: by node, "10.0.0.3:40123". They are formation 1 then.
//
// All-reduce, where a node is lost: the authority says with a formation's number, and no endpoints, that it is over.
// Its nodes say anew where they are reached, or have by themselves, and are told of the next one: endpoints of those
// who are gone are empty.
struct Peers {
  std::uint64_t token = 0;  // of the formation, by which its nodes know each other; from a node 0
  std::vector<std::string> endpoints{};
  std::uint32_t formation = 0;     // from a node the one that it has left; 0: none
  Version version{};               // from a node: of its parameters; to it: which all go on from
  std::optional<NodeId> holder{};  // to a node: who gives it to those who are behind; empty: nobody is
  std::optional<NodeId> lost{};    // from a node: who has closed its connection
  std::string why{};               // why it has left the formation; to it: why that is over
  // To a node, of the formation, where the run has keys.
  std::optional<FormationKey> key{};
};

// All-reduce: asks for the parameters and the optimizer's state. The authority asks a node, which is at `version`, to
// send them for a checkpoint; a node asks its server what the run goes on from, whatever version that is.
struct StateWanted {
  Version version{};
};

// A piece of them: the parameters, then each of the optimizer's vectors (common/params/optimizer.h), all of them as
// long. `offset` counts the floats of all, no piece is of two vectors, and they ascend without gaps. A run that
// begins has no vectors yet. Payload: the floats.
struct NodeState {
  Version version{};
  std::int64_t offset = 0;
  bool last = false;  // to a node
};

// ---- one iteration

// A piece of worker's gradient stamped `clock`, for one server's range. Pieces of one gradient come from the
// range's end to its begin, without gaps, in the order in which a backward pass makes them: the first one
// ends where the range does, each further one where the one before begins, the `last` begins at 0. The
// gradient counts with that one. Payload: floats [offset, offset + n) of the range, in the run's gradient
// encoding.
struct Push {
  WorkerId worker{};
  Clock clock{};
  std::int64_t offset = 0;
  bool last = false;
  std::int64_t samples = 0;      // weight under combine: mean; > 0 in the last piece, 0 before
  Version computed_version{};    // of the parameters it was computed with
  Revision computed_revision{};  // of what they have of this server
  std::int64_t own_updates = 0;  // own gradients that were in these parameters besides (read-my-writes)
};

// The rest of the gradient stamped `clock` will not come, since it is not finite; what is here of it is
// forgotten. Sent to each server that has pieces of it, but not the last one.
struct Withdraw {
  WorkerId worker{};
  Clock clock{};
};

// The worker reports that it completed the iteration stamped `clock`; sent after its pushes. To the
// authority.
struct StepReport {
  WorkerId worker{};
  Clock clock{};
  Metric metric{};
  Version computed_version{};
  Revision computed_revision{};
  bool skipped = false;                 // NaN under on_nan: skip: no gradient was pushed, weight 0
  std::string fault{};                  // the loss or tensor that was not finite; empty when fine
  std::int64_t own_updates = 0;         // as in Push
  std::chrono::nanoseconds compute{0};  // how long its gradient took to compute
  LossScale loss_scale{};               // after it, where gradients are computed in float16
};

// Asks a server for its parameters, answered by Parameters frames or by Unchanged. Held by the server until
// its version reaches min_version. `exact`: the retained version min_version and no other (evaluation, final
// model).
struct Pull {
  std::uint64_t request = 0;  // chosen by the sender, echoed in the answer
  Version min_version{};
  bool exact = false;
  Revision have = kNoRevision;  // this shard's revision that the asker holds: equal means Unchanged
  // Of the server's range, what is wanted: a stage of a pipeline trains no more, and fragments come one by one
  // (exchange.fragments). Null: all of it.
  std::optional<Range> part = {};
};

// A piece of a server's range, in order, without gaps. All pieces of one answer are of one revision.
// `applied[t]`: the applied clock of thread t of the asking node: own gradients stamped < applied[t] are
// contained. Payload: floats [offset, offset + n) of the range or of Pull::part, in the run's encoding; float32
// where the pull was exact.
struct Parameters {
  std::uint64_t request = 0;
  ShardId shard{};
  Version version{};
  Revision revision{};
  std::int64_t offset = 0;
  bool last = false;
  std::vector<Clock> applied{};  // in the first piece only
};

// "Go on with the revision you have": no payload. It is the newest, or new enough while an older state than
// the newest is still being sent to others (docs/PROTOCOL.md, 6).
struct Unchanged {
  std::uint64_t request = 0;
  ShardId shard{};
  Version version{};
  Revision revision{};
  std::vector<Clock> applied{};
};

// The worker may begin the iteration stamped `clock`.
struct Grant {
  WorkerId worker{};
  Clock clock{};
  std::int64_t iteration = 0;  // its place in the run
  Threshold threshold{};
  Clock min_clock{};
  Version min_version{};  // the oldest version it may compute with: max(0, c - s)
  Version version{};      // the newest version and revision known to exist
  Revision revision{};
  double learning_rate = 0.0;               // for the local apply
  double local_scale = 1.0;                 // sample share of this worker where the server averages, else 1
  std::chrono::nanoseconds held{0};         // how long the threshold held this grant
  std::int64_t position = 0;                // its mini-batch (common/batch_part.h)
  std::int64_t samples = 1;                 // >= 1
  ApplyMode apply = ApplyMode::kVersioned;  // what "newer" means to its caches (common/cache/freshness.h)
  bool starts_over = false;  // nothing that it has of former rounds counts (common/sync/actions.h)
  LossScale loss_scale{};    // what the worker has said of it last, also before a resume
};

// Still held, and why: sent after 200 ms, then each second. A deadline is for silence, not for holding.
struct HeldNotice {
  WorkerId worker{};
  Clock clock{};
  Staleness lead{};
  Threshold threshold{};
  WorkerId waits_for{};
  std::chrono::nanoseconds held{0};
};

// This worker has no further iteration to do.
struct FinishWorker {
  WorkerId worker{};
  std::string reason{};              // "share done", "max_seconds", "target accuracy reached", ...
  std::chrono::nanoseconds held{0};  // how long the threshold had held the grant that does not come
};

// ---- evaluation

// Asks a node to evaluate the retained version; it pulls it with `exact` and answers with EvaluationReport.
// `later`: not yet. All-reduce: it keeps that version, which it is at, until it is asked.
struct Evaluate {
  Version version{};
  bool final_model = false;
  bool later = false;
};

struct EvaluationReport {
  Version version{};
  Metric metric{};
  std::string fault{};  // why there is no metric; empty when fine
};

// ---- the end

// One training thread's time and counts, for phases.csv and summary.json.
struct WorkerReport {
  WorkerId worker{};
  PhaseTotals phases{};
  std::int64_t iterations = 0;
  std::int64_t skipped = 0;   // NaN under on_nan: skip
  std::int64_t overruns = 0;  // emulated steps that did not fit (docs/CONFIG.md)
  // Payload bytes of gradients that were handed over while the rest was computed.
  std::int64_t bytes_early = 0;
};

// A node's last word before it leaves, once all its workers are finished: the numbers of its threads, one
// WorkerReport for each, in order.
struct NodeReport {
  NodeId node{};
  std::vector<WorkerReport> workers{};
  std::int64_t parameter_reads = 0;      // all reads; those a cache answered: parameter_reads - server_reads
  std::int64_t server_reads = 0;         // reads that had to wait for a server
  std::int64_t samples_left_out = 0;     // TaskFactory::samples_left_out()
  StageReport stage = {};                // TaskFactory::stage_report(); of a pipeline
  std::int64_t bytes_reduced = 0;        // all-reduce: of gradients, sent to other nodes
  std::chrono::nanoseconds reducing{0};  // for so long (common/traffic.h)
  // All-reduce, of node 0: how buckets are summed, and why, a line for each choice.
  std::vector<std::string> algorithms = {};
};

// The sender goes: after its report (ok), or before (fault says why).
struct Leave {
  std::string fault{};
  std::optional<NodeId> lost{};  // who is gone, where that is why: its connection to the sender has ended
  bool finished = false;         // it has done what it was to do: its training loop has come to its end
};

// The run is over; a node ends with success when ok. `resumable`: it has failed since it cannot go on without
// new servers, but these can go on from a checkpoint; a node that may wait for them
// (cluster.reconnect_timeout) joins again instead of ending. `reconfigures`: to servers, which go on from that
// checkpoint by themselves, as a new generation (server/authority/reconfigure.h).
struct RunOver {
  StatusCode code = StatusCode::kOk;
  std::string message{};
  bool resumable = false;
  bool reconfigures = false;
};

// The sender lives. A node's to the authority says where the time of its workers has gone so far, for whoever
// looks on: the times of each thread, in order; or nothing of it.
// A shard's to the authority says what it has moved so far, and each of these two how many messages of the
// other it has received (server/peers/reliable_channel.h).
// Where `answer` is not 0 the authority asks a node for a sign of life, and the node says the same back at
// once: what it said before was on its way already, and may be the last words of a process that is dead.
struct Heartbeat {
  std::vector<PhaseTimes> workers{};
  Traffic traffic{};
  std::int64_t acked = 0;
  std::uint64_t answer = 0;
};

// The peer's message was refused; fatal when the connection is of no further use.
struct Error {
  StatusCode code = StatusCode::kInternal;
  std::string message{};
  bool fatal = false;
};

using AnyBody =
    std::variant<Join, Welcome, InitialParameters, Push, StepReport, Pull, Parameters, Unchanged, Grant,
                 HeldNotice, FinishWorker, Evaluate, EvaluationReport, NodeReport, Leave, RunOver, Heartbeat,
                 Error, ShardJoin, ShardWelcome, ShardReady, GradientArrived, ApplyDecision, DiscardGradient,
                 NodeLost, Release, ShardReport, Withdraw, Saved, ForgetSaved, StopRun, NodeReady,
                 NodeAdmitted, ReplicaJoin, ReplicaWelcome, LogAck, LocalEvent, Reconfigure, ReplicaResumes,
                 FilePull, FilePiece, Peers, StateWanted, NodeState>;
inline constexpr std::size_t kBodies = std::variant_size_v<AnyBody>;

// One of them: a variant whose copies, moves and end are compiled once, in messages.cc, not in each file that
// has to do with messages: of so many kinds they are most of what such a file would compile.
class Body : public AnyBody {
 public:
  template <typename T>
    requires(!std::is_base_of_v<AnyBody, T> && std::is_convertible_v<T, AnyBody>)
  Body(T body) : AnyBody(std::move(body)) {}
  Body();
  Body(const Body&);
  Body(Body&&) noexcept;
  Body& operator=(const Body&);
  Body& operator=(Body&&) noexcept;
  ~Body();
};

// That a message is told to a replica as an event of its server's log: what became of it there.
struct LogEntry {
  enum class As : std::uint8_t {
    kLocalEvent,   // the body is a LocalEvent
    kAdmission,    // a Join or ShardJoin: the peer was let in
    kReturn,       // a Join or ShardJoin: the peer goes on over another connection
    kToShard,      // the shard was told
    kToAuthority,  // the authority was told
    kSent,         // the shard has sent it to the authority, over a network
  };
  As as{};
  std::int64_t number = 0;  // of the event: they are counted from 0, without gaps
  bool ends_turn = false;   // what has happened up to here belongs together
  std::int64_t at = 0;      // nanoseconds of the server's clock
  // Who said it, or whom it happened to.
  std::optional<NodeId> node{};
  std::optional<ShardId> shard{};

  bool operator==(const LogEntry&) const = default;
};

struct Message {
  Body body{};
  Payload payload{};  // only Push, Parameters, InitialParameters, NodeState and FilePiece carry one
  std::optional<LogEntry> logged{};
};

// The message's name as it is printed, e.g. "Push".
const char* name_of(const Body& body);

}  // namespace paceline::wire
