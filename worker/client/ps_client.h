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
// again (server_connections.h): nobody above notices.
//
// The first thing that closes the client, a fault, a stop or the end of the run, releases every waiter with
// its status. A client has one life, with servers of one generation of the run; where it was closed because
// they are lost (lost()), the node may join the next ones with another client (worker/session.h).
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/params/layout.h"
#include "common/wire/transport.h"
#include "worker/cache/process_cache.h"
#include "worker/client/client_state.h"
#include "worker/client/client_waits.h"
#include "worker/client/evaluation_queue.h"
#include "worker/client/gradient_sender.h"
#include "worker/client/io_turns.h"
#include "worker/client/ps_client_options.h"
#include "worker/client/pulls.h"
#include "worker/client/received_messages.h"
#include "worker/client/server_connections.h"
#include "worker/client/unacked_messages.h"
#include "worker/exchange/coordinator.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/mailboxes.h"
#include "worker/exchange/run_state.h"

namespace paceline {

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
  std::uint64_t generation() const { return generation_; }

  // Whether a server shares memory with this node. Once started.
  bool shares_memory() const { return io_connections_.shares_memory(); }

  // Sends node 0's initial values (the whole flat vector) to their shards, but to those that have some.
  void send_initial_parameters(std::vector<float> values);

  // ---- all-reduce, whose coordinator it is (worker/allreduce/)
  // Says where the other nodes reach this one, and waits until the authority knows that of all, which it says: of a
  // formation after `own.formation`. Once started. Errors: kDeadlineExceeded; why the client was closed.
  Result<wire::Peers> exchange_endpoints(wire::Peers own, std::chrono::nanoseconds timeout);
  // What the run begins with, or goes on from, as far as this node trains it. Once started, of node 0 behind
  // send_initial_parameters(). Errors:
  // kDeadlineExceeded; why the client was closed.
  Result<RunState> fetch_state(std::chrono::nanoseconds timeout);
  // Gives the server what the run has come to, as far as this node has it. Of each node that has a part that no other
  // sends (session_reducing.cc), ahead of finish().
  void send_final_state(std::shared_ptr<const RunState> state);
  // Tells the authority that the run cannot go on, with this node or without it, and why.
  void fail_run(const Status& why);

  // ---- for training threads: coordinator.h
  Result<Instruction> next_instruction(std::uint32_t thread) override;
  void report(RoundReport report) override;
  // As the authority has said last; it does 200 ms after the report, then each second.
  std::optional<GrantHold> held(std::uint32_t thread) const override { return mailboxes_.held(thread); }

  // ---- exchange.h
  void push(Contribution gradient) override;
  void push_early(const Contribution& gradient, std::int64_t begin) override;
  std::int64_t floats_at_once() const override;
  EarlyPush pushed_early(WorkerId worker, Ticks until) const override;
  void withdraw(const Contribution& gradient) override;
  Ticket request_parameters(Version min_version) override;
  Ticket request_fragment(Version min_version, std::int64_t n) override;
  Ticket request_early(Version min_version) override;
  Result<Ticks> await_parameters(Ticket ticket, ParameterSink& sink) override;
  Result<std::optional<Ticks>> await_early(std::uint32_t thread, Ticket ticket, ParameterSink& sink) override;
  std::optional<Ticks> parameters_installed(Ticket ticket) override { return pulls_.answered(ticket); }

  // ---- for the evaluator thread
  // Waits for the authority's next request. Errors: why the client was closed, the orderly end of the run
  // included.
  Result<wire::Evaluate> next_evaluation() { return evaluations_.take(); }
  // Fetches exactly the retained version `version` into `flat`, past the process cache. Errors: kNotFound it
  // is no longer retained, and the client stays open; why the client was closed.
  Status fetch_exact(Version version, std::span<float> flat);
  void report_evaluation(wire::EvaluationReport report);

  // ---- the end
  // Sends the node's numbers and waits until the authority ends the run. OK when it ended well. From here on
  // the authority alone must be heard of: it sees to the other shards, which end before the nodes.
  Status finish(wire::NodeReport report);
  // Says goodbye, so that nobody waits for this node, and why, and for which other one that has gone. Closes the
  // client. `has_finished`: the node has done what it was to do.
  void leave(const Status& why, std::optional<NodeId> gone = std::nullopt, Lost lost = Lost::kNothing,
             bool has_finished = false);
  // Closes the connections; once closed, of the thread that started it. What was said leaves within the linger time, as
  // long as the wire::Context stands. What servers have lent stays.
  void disconnect();
  // Releases every waiter with `why`; nothing is sent. `lost`: what lost() is to say. Thread: any; not from a signal
  // handler.
  void close(Status why, Lost lost = Lost::kNothing);
  // Whether a server that has welcomed the node had no parameters yet. Once all have.
  bool lack_parameters() const { return received_.lack_parameters(); }
  // Why the client was closed; OK while it is open. Once the run is over: kAborted for an orderly end.
  Status closed() const { return state_.closed(); }
  // Whether it was closed because servers were lost: silent for a lease, another process than the one that
  // had welcomed this node, or ended by the authority in a way that can be resumed.
  Lost lost() const { return state_.lost(); }
  // How the run ended, as the authority said; nullopt while it goes on. It may be waited for, also after leave().
  std::optional<Status> run_over(std::chrono::nanoseconds timeout = {}) { return state_.run_over(timeout); }

 private:
  // Sends what is to be asked, if it is not asked already.
  Ticket ask(Pulls::Request request);
  void send(GradientPart part);
  void send_at_start(wire::Body body);
  // Of the node's only training thread, where the model is small; else nothing.
  IoTurns::Wait waits_for(std::function<bool()> done) { return {turns_, std::move(done)}; }

  // ---- on the I/O thread
  void io_lose(Lost lost, const Status& why);

  // received_ and members named io_* belong to whoever runs the I/O loop (io_turns.h), but for calls that say
  // otherwise. Each of senders_ belongs to its training thread; everything else is atomic or behind a lock of its own.
  const PsClientOptions options_;
  ClientState state_;
  const std::vector<ShardPart> parts_;  // by shard
  const std::vector<CacheSlice> slices_;
  Pulls pulls_;
  Mailboxes mailboxes_;
  EvaluationQueue evaluations_;
  std::uint64_t generation_ = 0;         // of all servers, once started
  std::vector<GradientSender> senders_;  // by thread, which alone uses its own
  boost::asio::io_context io_;
  IoTurns turns_;
  UnackedMessages io_unacked_;
  ClientWaits io_waits_;
  ServerConnections io_connections_;
  ReceivedMessages received_;
  std::thread thread_;
};

}  // namespace paceline
