// What servers say to each other: the authority and the other shards, and the replicas of one shard. messages.h has
// what nodes say and are told, and who says which of these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint_id.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/sync/modes.h"
#include "common/wire/protocol.h"

namespace paceline::wire {

// ---- between the authority and the other shards

// A shard's file of a checkpoint that is intact on its disk: every byte was read.
struct IntactFile {
  CheckpointId checkpoint{};
  FileDigest digest{};
};

struct ShardJoin {
  std::uint32_t protocol_version = kProtocolVersion;
  ShardId shard{};
  std::uint64_t config_fingerprint = 0;
  bool resumes = false;              // the server was started to resume a run
  std::vector<IntactFile> intact{};  // then: what it has, the newest first
  // As a node's Join: a random number of this process, not 0; the generation that it goes on in, over another
  // connection; which of its connections that is. `acked`: how many messages of the authority.
  std::uint64_t incarnation = 0;
  std::uint64_t goes_on = 0;
  std::int64_t connection = 1;
  std::int64_t acked = 0;
  std::vector<std::string> settings{};  // as a node's
};
// The run's generation, and the checkpoint that it goes on from; none: it begins. `acked`: how many messages
// of the shard.
struct ShardWelcome {
  std::uint64_t generation = 1;
  std::optional<CheckpointId> resume_from{};
  std::int64_t acked = 0;
};

// The shard holds node 0's initial parameters whole: training may begin. All-reduce: or what the nodes have come to
// at `version`.
struct ShardReady {
  ShardId shard{};
  std::uint64_t layout_hash = 0;
  Version version{};
};

// The shard holds the gradient of `worker` stamped `clock` whole.
struct GradientArrived {
  ShardId shard{};
  WorkerId worker{};
  Clock clock{};
  std::int64_t samples = 0;
  std::string fault{};  // the tensor and index that was not finite; empty when fine
};

// What every shard applies next, decided once by the authority. Sequence numbers have no gaps.
struct Contribution {
  WorkerId worker{};
  Clock clock{};
  std::int64_t samples = 0;
  std::int64_t staleness = 0;  // updates that it was computed without (common/sync/actions.h)
};
enum class Combine : std::uint8_t { kEach, kMean };
struct ApplyDecision {
  std::int64_t sequence = 0;
  std::vector<Contribution> contributions{};  // in the order of application
  std::vector<Contribution> skipped{};        // clocks that close without a gradient (samples = 0)
  Combine combine = Combine::kEach;
  double learning_rate = 0.0;  // the schedule's times rate_scale
  Version version_after{};
  Revision revision_after{};
  bool retain = false;  // keep this state as retained version version_after
  bool save = false;    // write this state as the checkpoint of version_after, in the background
  // How the next one is predicted (server/store/speculative_apply.h).
  ApplyMode apply = ApplyMode::kVersioned;
  double rate_scale = 1.0;
};

struct DiscardGradient {
  WorkerId worker{};
  Clock clock{};
};
// A node is out. To a shard: what it has of it in part is forgotten. From a shard: it can serve that node no
// further, so no gradient of it will be whole any more.
struct NodeLost {
  NodeId node{};
  std::string why{};
  // Which of its processes: another one may have been let in meanwhile. 0: none had joined.
  std::uint64_t incarnation = 0;
  // From a shard: its connection broke, or it was silent. Who is done is not lost for that, as it may come back to
  // hear how the run ended; one that takes no parameters, or is refused, is lost whether it is done or not.
  bool out_of_reach = false;
};
// This process of the node is let in, at the start or later, after the loss of the one before (NodeLost), if
// there was one. A shard that knew another lets it in now, too.
struct NodeAdmitted {
  NodeId node{};
  std::uint64_t incarnation = 0;
};
// The retained version is no longer needed.
struct Release {
  Version version{};
};

// The shard's file of the checkpoint of `version` is on its disk, or why not (`fault`; the digest then says
// nothing).
struct Saved {
  ShardId shard{};
  Version version{};
  FileDigest digest{};
  std::string fault{};  // empty: it is written
};
// Checkpoints older than this one are needed no more, but for those that are spared.
struct ForgetSaved {
  CheckpointId oldest_kept{};
  std::vector<CheckpointId> spared{};
};

// The shard is asked to end: the authority ends the run in order, for all, and then the shard too (RunOver).
struct StopRun {
  std::string reason{};
};

// A server process's counts, header and payload bytes given to ZeroMQ.
struct ShardReport {
  ShardId shard{};
  std::int64_t bytes_pushed = 0;
  std::int64_t bytes_pulled = 0;
  std::int64_t pulls = 0;
  std::int64_t malformed = 0;     // messages refused by the codec or by their meaning
  std::int64_t bytes_shared = 0;  // payload bytes that were not given to ZeroMQ: they lie in shared memory
  std::int64_t reconnects = 0;    // of nodes, over another connection than the one that broke
};

// A replica of the shard has come back: the authority is asked to quiesce the run, save it and have all
// servers go on from there, with that replica (server/authority/reconfigure.h).
struct Reconfigure {
  std::string reason{};
};

// ---- between the replicas of a shard

// A replica asks the one that serves for its log (server/replicas). Incarnation: of the process, as etcd
// knows it. `has`: the checkpoint whose files it has been given.
struct ReplicaJoin {
  std::uint32_t protocol_version = kProtocolVersion;
  ShardId shard{};
  std::uint64_t config_fingerprint = 0;
  std::uint64_t incarnation = 0;
  std::optional<CheckpointId> has{};
  std::vector<std::string> settings{};  // as a node's
};
// Its answer where the run goes on from a checkpoint that the replica has not: it is to pull these files, and
// to ask again. The manifest is the authority's alone; 0 bytes: there is none.
struct ReplicaResumes {
  CheckpointId from{};
  std::int64_t shard_bytes = 0;
  std::int64_t manifest_bytes = 0;
};
enum class CheckpointFile : std::uint8_t { kShard, kManifest };
// Up to kPayloadBytesMax bytes of it from `offset` on are asked for ...
struct FilePull {
  CheckpointFile file{};
  std::int64_t offset = 0;
};
// ... and sent: the payload. None where the file ends before `offset`.
struct FilePiece {
  CheckpointFile file{};
  std::int64_t offset = 0;
};
// It is told all that happens, from the start on. `incarnation`: of the shard, as the authority knows it;
// `began`: when the server did, in nanoseconds of the clock that the log is told by.
struct ReplicaWelcome {
  std::uint64_t generation = 1;
  std::uint64_t incarnation = 0;
  std::int64_t began = 0;
};
// The replica has the first `count` events of the log.
struct LogAck {
  std::int64_t count = 0;
};
// An event of a server's log that is no message. `number`, `code` and `text` are:
struct LocalEvent {
  enum class What : std::uint8_t {
    kTick,       // time has passed
    kPause,      // the process stood still for `number` nanoseconds
    kRemoved,    // a peer takes no further part
    kForgotten,  // nor did it ever
    kLost,       // the authority was told that a peer is, and why
    kStop,       // the run is to end, and why
    kFail,       // it has failed, and why
    kDone,       // the authority's piece of background work `number` is done, with that result
    kAcked,      // another server has received `number` messages of this one
    kResumed,    // the server goes on from the checkpoint whose files its replica was given, as generation
                 // `number`
    kSave,       // a checkpoint was asked for
  };
  What what{};
  std::int64_t number = 0;
  StatusCode code = StatusCode::kOk;
  std::string text{};
};

}  // namespace paceline::wire
