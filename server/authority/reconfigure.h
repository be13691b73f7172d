// A server that was lost, or comes late, comes back into a run as the follower of the one that serves its
// shard. It has nothing of what its shard's peers are in the middle of, so the run is brought to a point at
// which they are in the middle of nothing, and all servers go on from there:
//
//   shard 1's returning replica   ReplicaJoin     ->  the one that serves shard 1: it cannot follow as things
//                                                     stand, and is to ask again
//   the one that serves shard 1   Reconfigure        ->  the authority: the run quiesces and is saved
//                                                     (reconfiguration.h)
//   the authority                 RunOver{reconfigures}  ->  all servers, which say that they have heard it
//                                                     (ShardReport) and begin anew, in the same process: who
//                                                     served resumes, who followed follows
//   the returning replica         ReplicaJoin     ->  <- ReplicaResumes: the checkpoint that it goes on from
//                                 FilePull, FilePiece …   until it has the files
//                                 ReplicaJoin{has}    <- ReplicaWelcome, and all that has happened since
//   nodes                         wait for the new generation, as for servers that were killed
//
// It is a run that was killed and resumed, but for what that would have lost.
#pragma once

#include "common/config/run_config.h"
#include "common/status.h"

namespace paceline::server {

// Whether a run of this configuration can be handed over at all. Errors: kFailedPrecondition, naming the key
// that stands in the way.
[[nodiscard]] Status can_reconfigure(const RunConfig& config);

// How long, in leases, after a reconfiguration that brought nobody back, or was given up, before the next one.
inline constexpr int kLeasesBetween = 20;

// How a server's process goes on: after a reconfiguration, or as a replica that the one that serves has lost though
// both live, and that comes back.
struct RestartRequest {
  bool serves = false;            // it served; else it follows the one that does
  bool expects_follower = false;  // one that serves: there is a replica that is to follow it
  bool rejoins = false;           // it was lost, and is to come back
  bool has_followed = false;  // one that returns: it had all that there was, so the run is to be reconfigured
};

}  // namespace paceline::server
