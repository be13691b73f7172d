// Where a client stands: which servers have welcomed the node, why it was closed, what it lost by that, and
// how the run ended.
//
// Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "worker/exchange/run_state.h"

namespace paceline {

// What a client was closed for the loss of: the node may join its servers again when they are back.
enum class Lost {
  kNothing,  // it is open, or was closed for something else
  kShard,    // another server than the authority, or the authority said that this is why it ends the run:
             // until it has ended it refuses the node
  kTheAuthority,  // was not heard of, or takes this node for lost
};

class ClientState {
 public:
  // Of a server: the generation that it has welcomed the node into; 0 while it has not, and what it may have
  // said instead.
  struct Standing {
    std::uint64_t generation = 0;
    std::string refusal;
    bool operator==(const Standing&) const = default;
  };

  explicit ClientState(std::size_t servers) : servers_(servers) {}

  void stands(ShardId server, Standing standing);
  // Waits until all servers have welcomed the node into the same generation, the client is closed, or
  // `timeout` is over. By server, how it stands. Errors: why the client was closed.
  Result<std::vector<Standing>> await_welcomes(std::chrono::nanoseconds timeout);

  // All-reduce: what the authority has said of the nodes, and the wait for it. Errors: kDeadlineExceeded; why the
  // client was closed.
  void peers(wire::Peers peers);
  // Of a formation after that one.
  Result<wire::Peers> await_peers(std::uint32_t after, std::chrono::nanoseconds timeout);
  // Likewise what the server says that the run goes on from. Once.
  void run_state(RunState state);
  Result<RunState> await_run_state(std::chrono::nanoseconds timeout);

  // False when it is closed already: the first `why` counts, and what was lost with it. One that is OK is our
  // own bug.
  bool close(const Status& why, Lost lost = Lost::kNothing);
  // OK while it is open.
  Status closed() const;
  Lost lost() const;

  // The node says goodbye, or is about to. False when it has done so before.
  bool leave();
  bool left() const;

  // What the authority said first of how the run ended; nullopt while it goes on. It may be waited for,
  // until nobody can say it any more.
  void over(Status how);
  void expect_no_end();
  std::optional<Status> run_over(std::chrono::nanoseconds timeout = {});
  // Once it is closed: how the run ended, or why it was closed without that. No time-out: the client's I/O
  // thread closes when a server is silent for a lease.
  Status await_end();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status closed_;
  Lost lost_ = Lost::kNothing;
  bool left_ = false;
  std::optional<Status> run_over_;
  bool expects_no_end_ = false;
  std::vector<Standing> servers_;
  std::optional<wire::Peers> peers_;
  std::optional<RunState> run_state_;
};

}  // namespace paceline
