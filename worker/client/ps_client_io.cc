// What servers say to a client, on its I/O thread.
#include <boost/asio/post.hpp>
#include <variant>

#include "worker/client/ps_client.h"

namespace paceline {
namespace {

step::Grant grant_of(const wire::Grant& grant) {
  return {grant.worker,        grant.clock,       grant.iteration,
          grant.threshold,     grant.min_version, grant.version,
          grant.revision,      grant.apply,       {grant.position, grant.samples},
          grant.learning_rate, grant.local_scale, grant.held,
          grant.anew};
}

}  // namespace

Status PsClient::io_take(ServerLink& link, wire::Message& message) {
  return std::visit([&](auto& body) { return io_handle(link, body, message.payload); }, message.body);
}

Status PsClient::io_handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&) {
  return io_connections_.welcome(link, welcome);
}

void PsClient::io_joined(const ServerLink& link, const wire::Welcome& welcome) {
  if (link.shard == kAuthority) {  // what one of another generation has said before
    mailboxes_.clear();
    evaluations_.clear();
    io_unacked_.forget_what_was_said();
  }
  lack_parameters_ = !welcome.initialized || io_connections_.others_lack_parameters(link);
}

Status PsClient::io_handle(ServerLink& link, wire::Grant& grant, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(grant.worker));
  if (!io_unacked_.granted(grant.worker.thread, grant.clock)) return Status::ok();  // said again
  return io_instruct(grant.worker.thread,
                     Granted{grant_of(grant), options_.clock(), io_report_time(link, grant.worker)});
}

Status PsClient::io_handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(finish.worker));
  if (!io_unacked_.finished(finish.worker.thread)) return Status::ok();  // said again
  return io_instruct(finish.worker.thread, Finished{finish.reason, finish.held, options_.clock(),
                                                    io_report_time(link, finish.worker)});
}

Status PsClient::io_check_ours(WorkerId worker) const {
  if (worker.node == options_.node && worker.thread < options_.cluster.threads_per_node) return Status::ok();
  return invalid_argument("an instruction for worker " + to_string(worker) + " sent to node " +
                          to_string(options_.node) + " with " +
                          std::to_string(options_.cluster.threads_per_node) + " thread(s)");
}

// The report that is answered was encoded on this thread, the answer decoded.
ReportTime PsClient::io_report_time(const ServerLink& link, WorkerId worker) const {
  return {io_times_[worker.thread], steady_now() - link.socket->received_at()};
}

Status PsClient::io_instruct(std::uint32_t thread, Instruction instruction) {
  const auto* const granted = std::get_if<Granted>(&instruction);
  io_waits_.grants().instructed(
      thread, granted == nullptr ? std::nullopt : std::optional(granted->grant.clock), options_.clock());
  const bool wakes = granted == nullptr;
  PACELINE_RETURN_IF_ERROR(mailboxes_.put(thread, std::move(instruction)));
  if (wakes) pulls_.wake();
  return Status::ok();
}

Status PsClient::io_handle(ServerLink&, wire::Held& held, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(held.worker));
  io_waits_.grants().held(held, options_.clock());
  PACELINE_RETURN_IF_ERROR(mailboxes_.hold(
      held.worker.thread, {held.clock, held.lead, held.waits_for, held.threshold, held.held}));
  options_.log.debug("worker " + to_string(held.worker) + " held at clock " + to_string(held.clock) + ": " +
                     to_string(held.lead) + " ahead of " + to_string(held.waits_for) + ", threshold " +
                     to_string(held.threshold));
  return Status::ok();
}

Status PsClient::io_handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload) {
  return pulls_.accept(link.shard, piece, std::move(payload), options_.clock());
}

Status PsClient::io_handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&) {
  return pulls_.accept(link.shard, unchanged, options_.clock());
}

Status PsClient::io_handle(ServerLink&, wire::Evaluate& request, wire::Payload&) {
  if (options_.on_evaluate) options_.on_evaluate(request.version);
  if (!request.later && io_unacked_.asked(request)) evaluations_.put(request);
  return Status::ok();
}

Status PsClient::io_handle(ServerLink&, wire::Peers& peers, wire::Payload&) {
  if (!peers.endpoints.empty()) {
    state_.peers(std::move(peers));
  } else if (options_.on_formation_over) {
    options_.on_formation_over(peers.formation);
  }
  return Status::ok();
}

Status PsClient::io_handle(ServerLink& link, wire::StateWanted& wanted, wire::Payload&) {
  const auto state = options_.state_at ? options_.state_at(wanted.version) : nullptr;
  return state == nullptr ? Status::ok() : link.send_state(state, options_.cluster.frame_bytes);
}

Status PsClient::io_handle(ServerLink&, wire::NodeState& piece, wire::Payload& payload) {
  PACELINE_ASSIGN_OR_RETURN(auto whole, io_run_state_.add(piece, payload));
  if (whole) state_.run_state(*std::move(whole));
  return Status::ok();
}

// A server that asks whether we are alive is answered; one that cannot be told so now asks again.
Status PsClient::io_handle(ServerLink& link, wire::Heartbeat& beat, wire::Payload&) {
  if (beat.answer != 0 && !state_.left())
    (void)link.socket->send({wire::Heartbeat{.answer = beat.answer}, {}});
  return Status::ok();
}

Status PsClient::io_handle(ServerLink& link, wire::Error& error, wire::Payload&) {
  // The exact version that the evaluator waits for has been released: it came too late.
  if (!error.fatal && error.code == StatusCode::kNotFound &&
      pulls_.refuse_exact(link.shard, {error.code, link.name() + ": " + error.message})) {
    return Status::ok();
  }
  return io_connections_.refused(link, error);
}

Status PsClient::io_handle(ServerLink& link, wire::RunOver& over, wire::Payload&) {
  Status how(over.code, over.message);
  const bool goes_on = over.resumable && options_.cluster.reconnect_timeout > Duration(0);
  if (goes_on) {
    io_connections_.ended(link, how);
  } else {
    state_.over(how);
    close(how.is_ok() ? aborted("the run is over") : std::move(how));
  }
  return Status::ok();
}

template <typename Body>
Status PsClient::io_handle(ServerLink& link, Body& body, wire::Payload&) {
  options_.log.warn(link.name() + " sent a " + wire::name_of(wire::Body(body)) +
                    ", which no server sends to a node");
  return Status::ok();
}

// Its sockets go at once, and with them what is lent to servers that will never give it back: a training
// thread may wait for that.
void PsClient::io_lose(Lost lost, const Status& why) {
  if (!state_.closed().is_ok()) return;
  leave(why, lost, std::nullopt);
  boost::asio::post(io_, [this] { io_connections_.shut_down(); });
}

}  // namespace paceline
