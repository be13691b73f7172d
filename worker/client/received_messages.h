// ReceivedMessages: what servers say to a client, each kind to whom it is for: grants to the mailboxes, parameters to
// the pulls, requests to the evaluator, faults and ends to the connections and the client's state.
//
// A message that is said again after a connection that broke counts once (unacked_messages.h).
//
// Thread: the I/O thread, but where it says so.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/params/layout.h"
#include "common/wire/transport.h"
#include "worker/client/client_state.h"
#include "worker/client/client_waits.h"
#include "worker/client/evaluation_queue.h"
#include "worker/client/ps_client_options.h"
#include "worker/client/pulls.h"
#include "worker/client/run_state_assembly.h"
#include "worker/client/server_connections.h"
#include "worker/client/unacked_messages.h"
#include "worker/exchange/mailboxes.h"

namespace paceline {

class ReceivedMessages {
 public:
  // Of a client, whose parts outlive this.
  struct Client {
    const PsClientOptions& options;
    ClientState& state;
    Pulls& pulls;
    Mailboxes& mailboxes;
    EvaluationQueue& evaluations;
    UnackedMessages& unacked;
    ClientWaits& waits;
    ServerConnections& connections;
  };
  // `layout`: of the whole network. `close`: PsClient::close().
  ReceivedMessages(Client client, const Layout& layout, std::function<void(Status)> close);

  // What has come over a server's connection. One that cannot be read, or that no server may send to this node, closes
  // the client.
  void take(ServerLink& link, Result<wire::Message> message);
  // After a server's Welcome of a node that joins.
  void joined(const ServerLink& link, const wire::Welcome& welcome);
  // Encoding the thread's last report took so long.
  void report_encoded(std::uint32_t thread, std::chrono::nanoseconds took) { report_times_[thread] = took; }
  // Whether a server that has welcomed the node had no parameters yet. Once all have. Thread: any.
  bool lack_parameters() const { return lack_parameters_; }

 private:
  Status handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&);
  Status handle(ServerLink& link, wire::Grant& grant, wire::Payload&);
  Status handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&);
  Status handle(ServerLink& link, wire::HeldNotice& held, wire::Payload&);
  Status handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload);
  Status handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&);
  Status handle(ServerLink& link, wire::Evaluate& request, wire::Payload&);
  Status handle(ServerLink& link, wire::Peers& peers, wire::Payload&);
  Status handle(ServerLink& link, wire::StateWanted& wanted, wire::Payload&);
  Status handle(ServerLink& link, wire::NodeState& piece, wire::Payload& payload);
  Status handle(ServerLink& link, wire::Heartbeat&, wire::Payload&);
  Status handle(ServerLink& link, wire::Error& error, wire::Payload&);
  Status handle(ServerLink& link, wire::RunOver& over, wire::Payload&);
  template <typename Body>
  Status handle(ServerLink& link, Body& body, wire::Payload&);
  Status check_ours(WorkerId worker) const;
  ReportTime report_time(const ServerLink& link, WorkerId worker) const;
  Status instruct(std::uint32_t thread, Instruction instruction);

  const Client client_;
  const std::function<void(Status)> close_;
  std::atomic<bool> lack_parameters_ = true;  // some server does
  RunStateAssembly run_state_;
  std::vector<std::chrono::nanoseconds> report_times_;  // per thread: of its last report
};

}  // namespace paceline
