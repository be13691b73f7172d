#include "worker/client/received_messages.h"

#include <utility>
#include <variant>

namespace paceline {
namespace {

step::Grant grant_of(const wire::Grant& grant) {
  return {grant.worker,        grant.clock,       grant.iteration,
          grant.threshold,     grant.min_version, grant.version,
          grant.revision,      grant.apply,       {grant.position, grant.samples},
          grant.learning_rate, grant.local_scale, grant.held,
          grant.starts_over,   grant.loss_scale};
}

}  // namespace

ReceivedMessages::ReceivedMessages(Client client, const Layout& layout, std::function<void(Status)> close)
    : client_(client),
      close_(std::move(close)),
      run_state_(layout.size(), client_.options.trained.value_or(Range{0, layout.size()})),
      report_times_(client_.options.cluster.threads_per_node) {}

void ReceivedMessages::take(ServerLink& link, Result<wire::Message> message) {
  if (!link.is_received()) return;
  link.last_received = client_.options.clock();
  link.answers = true;
  // It may have been a grant or parameters that somebody waits for: going on would be waiting for ever.
  if (!message.is_ok()) {
    return close_(invalid_argument(link.name() + " sent a malformed message: " + message.status().message()));
  }
  Status handled =
      std::visit([&](auto& body) { return handle(link, body, message->payload); }, message->body);
  if (!handled.is_ok()) close_(std::move(handled).with_context(link.name()));
}

Status ReceivedMessages::handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&) {
  return client_.connections.welcome(link, welcome);
}

void ReceivedMessages::joined(const ServerLink& link, const wire::Welcome& welcome) {
  if (link.shard == kAuthority) {  // what one of another generation has said before
    client_.mailboxes.clear();
    client_.evaluations.clear();
    client_.unacked.forget_all();
  }
  lack_parameters_ = !welcome.initialized || client_.connections.others_lack_parameters(link);
}

Status ReceivedMessages::handle(ServerLink& link, wire::Grant& grant, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(check_ours(grant.worker));
  if (!client_.unacked.granted(grant.worker.thread, grant.clock)) return Status::ok();  // said again
  return instruct(grant.worker.thread,
                  Granted{grant_of(grant), client_.options.clock(), report_time(link, grant.worker)});
}

Status ReceivedMessages::handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(check_ours(finish.worker));
  if (!client_.unacked.finished(finish.worker.thread)) return Status::ok();  // said again
  return instruct(finish.worker.thread, Finished{finish.reason, finish.held, client_.options.clock(),
                                                 report_time(link, finish.worker)});
}

Status ReceivedMessages::check_ours(WorkerId worker) const {
  if (worker.node == client_.options.node && worker.thread < client_.options.cluster.threads_per_node)
    return Status::ok();
  return invalid_argument("an instruction for worker " + to_string(worker) + " sent to node " +
                          to_string(client_.options.node) + " with " +
                          std::to_string(client_.options.cluster.threads_per_node) + " thread(s)");
}

// The report that is answered was encoded on this thread, the answer decoded.
ReportTime ReceivedMessages::report_time(const ServerLink& link, WorkerId worker) const {
  return {report_times_[worker.thread], steady_now() - link.socket->received_at()};
}

Status ReceivedMessages::instruct(std::uint32_t thread, Instruction instruction) {
  const auto* const granted = std::get_if<Granted>(&instruction);
  client_.waits.grants().instructed(thread,
                                    granted == nullptr ? std::nullopt : std::optional(granted->grant.clock),
                                    client_.options.clock());
  const bool wakes = granted == nullptr;
  PACELINE_RETURN_IF_ERROR(client_.mailboxes.put(thread, std::move(instruction)));
  if (wakes) client_.pulls.wake();
  return Status::ok();
}

Status ReceivedMessages::handle(ServerLink&, wire::HeldNotice& held, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(check_ours(held.worker));
  client_.waits.grants().held(held, client_.options.clock());
  PACELINE_RETURN_IF_ERROR(client_.mailboxes.hold(
      held.worker.thread, {held.clock, held.lead, held.waits_for, held.threshold, held.held}));
  client_.options.log.debug("worker " + to_string(held.worker) + " held at clock " + to_string(held.clock) +
                            ": " + to_string(held.lead) + " ahead of " + to_string(held.waits_for) +
                            ", threshold " + to_string(held.threshold));
  return Status::ok();
}

Status ReceivedMessages::handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload) {
  return client_.pulls.accept(link.shard, piece, std::move(payload), client_.options.clock());
}

Status ReceivedMessages::handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&) {
  return client_.pulls.accept(link.shard, unchanged, client_.options.clock());
}

Status ReceivedMessages::handle(ServerLink&, wire::Evaluate& request, wire::Payload&) {
  if (client_.options.on_evaluate) client_.options.on_evaluate(request.version);
  if (!request.later && client_.unacked.asked(request)) client_.evaluations.put(request);
  return Status::ok();
}

Status ReceivedMessages::handle(ServerLink&, wire::Peers& peers, wire::Payload&) {
  if (!peers.endpoints.empty()) {
    client_.state.peers(std::move(peers));
  } else if (client_.options.on_formation_over) {
    client_.options.on_formation_over(peers.formation, peers.why);
  }
  return Status::ok();
}

Status ReceivedMessages::handle(ServerLink& link, wire::StateWanted& wanted, wire::Payload&) {
  const auto state = client_.options.state_at ? client_.options.state_at(wanted.version) : nullptr;
  return state == nullptr ? Status::ok() : link.send_state(state, client_.options.cluster.frame_bytes);
}

Status ReceivedMessages::handle(ServerLink&, wire::NodeState& piece, wire::Payload& payload) {
  PACELINE_ASSIGN_OR_RETURN(auto whole, run_state_.add(piece, payload));
  if (whole) client_.state.run_state(*std::move(whole));
  return Status::ok();
}

// A server that asks whether we are alive is answered; one that cannot be told so now asks again.
Status ReceivedMessages::handle(ServerLink& link, wire::Heartbeat& beat, wire::Payload&) {
  if (beat.answer != 0 && !client_.state.left())
    (void)link.socket->send({wire::Heartbeat{.answer = beat.answer}, {}});
  return Status::ok();
}

Status ReceivedMessages::handle(ServerLink& link, wire::Error& error, wire::Payload&) {
  // The exact version that the evaluator waits for has been released: it came too late.
  if (!error.fatal && error.code == StatusCode::kNotFound &&
      client_.pulls.refuse_exact(link.shard, {error.code, link.name() + ": " + error.message})) {
    return Status::ok();
  }
  return client_.connections.refused(link, error);
}

Status ReceivedMessages::handle(ServerLink& link, wire::RunOver& over, wire::Payload&) {
  Status how(over.code, over.message);
  const bool may_go_on = over.resumable && client_.options.cluster.reconnect_timeout > Duration(0);
  const bool goes_on = may_go_on && !client_.state.left();
  if (goes_on) {
    client_.connections.ended(link, how);
  } else {
    client_.state.over(how);
    close_(how.is_ok() ? aborted("the run is over") : std::move(how));
  }
  return Status::ok();
}

template <typename Body>
Status ReceivedMessages::handle(ServerLink& link, Body& body, wire::Payload&) {
  client_.options.log.warn(link.name() + " sent a " + wire::name_of(wire::Body(body)) +
                           ", which no server sends to a node");
  return Status::ok();
}

}  // namespace paceline
