// The parameter server's side of a node: one connection to every server, one I/O thread for all of them,
// shared by the training threads and the evaluator (docs/ARCHITECTURE.md).
//
//   training threads --post--> I/O thread --DealerSocket--> servers
//   servers --frames--> I/O thread --> mailboxes                  grants
//                                  --> pulls, process cache       parameters
//                                  --> the evaluator              evaluation requests
//
// It is both to the training threads: the coordinator, which is the authority behind it, and the exchange,
// which are all servers together.
//
// Life: start() joins every server; then the Coordinator's and the Exchange's calls; then finish() with the
// node's numbers, or leave() when it goes before its time. Heartbeats and the deadlines for silence run on
// the I/O thread, so a busy trainer is not taken for a lost node, and a held grant not for a dead server: any
// message counts as life.
//
// A connection that breaks while its server lives is made anew, and what may have been lost with it is said
// again (ps_client_rejoin.cc): nobody above notices.
//
// The first thing that closes the client, a fault, a stop or the end of the run, releases every waiter with
// its status. A client has one life, with servers of one generation of the run; where it was closed because
// they are lost (lost()), the node may join the next ones with another client (worker/session.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/params/layout.h"
#include "common/ticks.h"
#include "common/wire/transport.h"
#include "worker/cache/process_cache.h"
#include "worker/client/client_state.h"
#include "worker/exchange/coordinator.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/run_state.h"

namespace paceline {

// What a PsClient must know; all of it outlives the client.
struct PsClientOptions {
  ClusterSection cluster;
  NodeId node;
  std::uint64_t incarnation = 0;           // a random number of this process
  std::uint64_t config_fingerprint = 0;    // what all daemons must agree on
  std::vector<std::string> settings = {};  // and by key (common/config/load.h)
  std::uint64_t data_fingerprint = 0;      // and what all nodes' data must
  Log log;
  // To share with servers of this machine: where gradients lie. Null: nothing is shared.
  std::shared_ptr<wire::SharedSegment> memory{};
  // For the parameters in the memory of such servers, called by the client's I/O thread. Empty: as they are.
  wire::Pin pin{};
  // Where a device reads parameters by itself: all are put there as they come, but those that are pinned and
  // those that an evaluator has asked for.
  // Null: they are where they came, or on the heap.
  std::shared_ptr<std::pmr::memory_resource> parameters{};
  // Called once, when the client closes, by whichever thread closes it: for waits that the client does not
  // know. It returns soon and does not call back.
  std::function<void()> on_closed = [] {};
  // How much of a gradient that is computed leaves while the next of it is looked at: some frames, and little
  // enough that what is looked at last is still in the processor's cache when it leaves.
  static constexpr std::int64_t kFloatsAtOnce = std::int64_t{1} << 18;
  std::int64_t floats_at_once = kFloatsAtOnce;
  // What time it is for all that may last too long. Any thread.
  std::function<Ticks()> clock = steady_now;
  // What the heartbeats to the authority say. Called by the client's I/O thread. Empty: nothing.
  std::function<wire::Heartbeat()> heartbeat{};
  // What the node waits for besides, of itself, once a second, to be logged where it takes long. Called by
  // the client's I/O thread. Empty: nothing.
  std::function<std::vector<Wait>()> own_waits{};
  // All-reduce, by the client's I/O thread, ahead of what the node is granted next. The version that it is at has
  // been asked for by the authority, or will be, to be evaluated: fetch_exact() is not to miss it. And its state at
  // that version, for a checkpoint; null where it is past that. Empty: it has none.
  std::function<void(Version)> on_evaluate{};
  std::function<std::shared_ptr<const RunState>(Version)> state_at{};
  // All-reduce, by the client's I/O thread: the formation of that number is over, since a node of it is lost.
  std::function<void(std::uint32_t formation)> on_formation_over{};
  // To show to the servers, and by which they are known. Null: the connections are not protected.
  std::shared_ptr<const wire::ClientKeys> keys{};
  // What the node's client before this one was closed for the loss of, and the generation of its servers:
  // this one then tries for cluster.reconnect_timeout to join those of a later one.
  Lost lost = Lost::kNothing;
  std::uint64_t last_generation = 0;
  // What of the layout this node trains (a stage of a pipeline): pushes and pulls are of it alone. Null: all.
  std::optional<Range> trained{};
  // Where the layout is cut into shards (shard_ranges.h). Empty: nearly equal ranges.
  std::vector<Range> shards{};
  // A grant may come while the iteration before is still computed or pushed (exchange.hidden).
  bool granted_ahead = false;
  // Of the node's flat vectors, in which gradients leave and parameters come (exchange.fragments). Empty: gradients
  // leave as their frames become final, parameters come whole.
  std::vector<Range> fragments{};
};

class PsClient final : public Coordinator, public Exchange {
 public:
  // Answers go to `cache`, whose ranges are those of cache_slices() (shard_part.h).
  PsClient(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache);
  // Stops the I/O thread; closes with kAborted what still waits.
  ~PsClient() override;
  PsClient(const PsClient&) = delete;
  PsClient& operator=(const PsClient&) = delete;

  // Connects to every server, joins, and waits until all have welcomed this node into one generation
  // (joining.h).
  // Errors: what a server refused; kFailedPrecondition one does not let this node in by its key, or has none
  // (wire/handshake.h); kDeadlineExceeded naming the servers that did not answer within
  // start_timeout, or did not let it join again within reconnect_timeout, and why; kInvalidArgument when a
  // shard's range is not the one expected.
  Status start();
  // Of the run, in all servers. Once started.
  std::uint64_t generation() const;

  // Whether a server shares memory with this node. Once started.
  bool shares_memory() const;

  // Sends node 0's initial values (the whole flat vector) to their shards, but to those that have some.
  void send_initial_parameters(std::vector<float> values);

  // ---- all-reduce, whose coordinator it is (worker/allreduce/)
  // Says where the other nodes reach this one, and waits until the authority knows that of all, which it says: of a
  // formation behind `own.formation`. Once started. Errors: kDeadlineExceeded; why the client was closed.
  Result<wire::Peers> exchange_endpoints(wire::Peers own, std::chrono::nanoseconds timeout);
  // What the run begins with, or goes on from, as far as this node trains it. Once started, of node 0 behind
  // send_initial_parameters(). Errors:
  // kDeadlineExceeded; why the client was closed.
  Result<RunState> fetch_state(std::chrono::nanoseconds timeout);
  // Gives the server what the run has come to. Of node 0, ahead of finish().
  void send_final_state(std::shared_ptr<const RunState> state);

  // ---- for training threads: coordinator.h
  Result<Instruction> next_instruction(std::uint32_t thread) override;
  void report(RoundReport report) override;
  // As the authority has said last; it does 200 ms after the report, then each second.
  std::optional<HeldBack> held(std::uint32_t thread) const override;

  // ---- exchange.h
  void push(Contribution gradient) override;
  void push_early(const Contribution& gradient, std::int64_t begin) override;
  std::int64_t floats_at_once() const override;
  EarlyPush pushed_early(WorkerId worker, Ticks until) const override;
  void withdraw(const Contribution& gradient) override;
  Ticket request_parameters(Version min_version) override;
  Ticket request_fragment(Version min_version, std::int64_t n) override;
  Ticket request_ahead(Version min_version) override;
  Result<Ticks> await_parameters(Ticket ticket, ParameterSink& landing) override;
  Result<std::optional<Ticks>> await_ahead(std::uint32_t thread, Ticket ticket,
                                           ParameterSink& landing) override;
  std::optional<Ticks> parameters_installed(Ticket ticket) override;

  // ---- for the evaluator thread
  // Waits for the authority's next request. Errors: why the client was closed, the orderly end of the run
  // included.
  Result<wire::Evaluate> next_evaluation();
  // Fetches exactly the retained version `version` into `flat`, past the process cache. Errors: kNotFound it
  // is no longer retained, and the client stays open; why the client was closed.
  Status fetch_exact(Version version, std::span<float> flat);
  void report_evaluation(wire::EvaluationReport report);

  // ---- the end
  // Sends the node's numbers and waits until the authority ends the run. OK when it ended well. From here on
  // the authority alone must be heard of: it sees to the other shards, which end before the nodes.
  Status finish(wire::NodeReport report);
  // Says goodbye, so that nobody waits for this node, and why. Closes the client.
  void leave(const Status& why, std::optional<NodeId> gone = std::nullopt);
  // Releases every waiter with `why`; nothing is sent. Thread: any; not from a signal handler.
  void close(Status why);
  // Whether a server that has welcomed the node had no parameters yet. Once all have.
  bool lack_parameters() const;
  // Why the client was closed; OK while it is open. Once the run is over: kAborted for an orderly end.
  Status closed() const;
  // Whether it was closed because servers were lost: silent for a lease, another process than the one that
  // had welcomed this node, or ended by the authority in a way that can be resumed.
  Lost lost() const;
  // How the run ended, as the authority said; nullopt while it goes on.
  std::optional<Status> run_over() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
