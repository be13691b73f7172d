// What a client does on its I/O thread: joins, heartbeats, what comes in, and the end.
#include <algorithm>

#include "common/params/optimizer.h"
#include "common/wire/segment_sizes.h"
#include "worker/client/ps_client_impl.h"

namespace paceline {

using Queued = wire::DealerSocket::Queued;

namespace {

// libzmq 4.3.4 loses the memory of a message of which a part has come where its socket is closed while its
// thread still reads what was sent: a goodbye is read by then.
constexpr std::chrono::nanoseconds kGoodbyeIsRead = std::chrono::milliseconds(5);

step::Grant grant_of(const wire::Grant& grant) {
  return {grant.worker,        grant.clock,       grant.iteration,
          grant.threshold,     grant.min_version, grant.version,
          grant.revision,      grant.apply,       {grant.position, grant.samples},
          grant.learning_rate, grant.local_scale, grant.held};
}

}  // namespace

Status PsClient::Impl::io_send_to_authority(ServerLink& link, const wire::Body& body) {
  return link.shard == kAuthority ? link.send({body, {}}) : Status::ok();
}

// Over a connection that is not welcomed yet, too: behind its Join the server knows who leaves.
void PsClient::Impl::io_leave(const wire::Leave& leave) {
  for (ServerLink& link : io_links_) {
    if (link.socket != nullptr) (void)link.socket->send({leave, {}});
  }
  io_said_goodbye_ = steady_now();
}

void PsClient::Impl::io_connect_all() {
  for (ServerLink& link : io_links_) {
    if (Status asked = io_connect(link); !asked.is_ok()) return close(std::move(asked));
  }
  io_waits_.begin(options_.clock());
  io_beat();
}

Status PsClient::Impl::io_connect(ServerLink& link) {
  wire::TransportOptions transport;
  transport.memory = options_.memory;
  transport.their_memory_bytes_max = wire::parameter_segment_bytes(link.range.size());
  transport.pin = options_.pin;
  transport.client_keys = options_.keys;
  transport.on_denied = [this, &link](const Status& why) { io_denied(link, why); };
  transport.on_unsent = [this, &link](const wire::PeerId&, const Status& why) {
    if (!link.broken) io_lose(lost_with(link), Status(why).with_context("to " + link.name()));
  };
  if (!link.answers) link.at = (link.at + 1) % link.endpoints.size();
  link.answers = link.endpoints.size() == 1;
  const std::int64_t number = ++link.connection;
  transport.on_broken = [this, &link, number] {
    boost::asio::post(io_, [this, &link, number] { io_broken(link, number, "it broke"); });
  };
  auto socket = wire::DealerSocket::connect(
      context_, io_, link.endpoints[link.at], transport,
      [this, &link](Result<wire::Message> message) { io_receive(link, std::move(message)); });
  if (!socket.is_ok()) return Status(socket.status()).with_context(link.name());
  link.socket = std::move(socket).value();
  return io_ask(link);
}

Status PsClient::Impl::io_ask(ServerLink& link) {
  io_joining_.asked(link, options_.clock());
  return link.socket->send(
      {wire::Join{wire::kProtocolVersion, options_.node, options_.incarnation,
                  options_.cluster.threads_per_node, options_.config_fingerprint, layout_.hash(),
                  layout_.tensors(), options_.data_fingerprint, options_.last_generation, link.generation,
                  io_outstanding_.gradients(), link.connection, options_.settings},
       {}});
}

// What is due of a join that has not been answered, or not well.
Status PsClient::Impl::io_join(ServerLink& link) {
  if (!state_.closed().is_ok()) return Status::ok();
  switch (io_joining_.due(link, options_.clock())) {
    case Joining::Due::kNothing:
      return Status::ok();
    case Joining::Due::kJoin:
      return io_ask(link);
    case Joining::Due::kConnection:
      // A replica that has not answered may have let this node in, and hears of it again.
      if (link.answers) (void)link.socket->send({wire::Leave{"it joins again over another connection"}, {}});
      link.socket->close();
      return io_connect(link);
  }
  return Status::ok();
}

// The node keeps trying. What a server has said itself says more.
void PsClient::Impl::io_say_why_unanswered(ServerLink& link) {
  const bool waits = state_.closed().is_ok() && !link.welcomed() && !link.broken && !link.connects_anew;
  if (!waits || link.heard > link.asked) return;
  const auto said = link.unanswered.look(link.endpoints[link.at], link.asked, options_.clock());
  if (!said) return;
  state_.stands(link.shard, {0, said->why});
  options_.log.write(said->may_be_usual ? LogLevel::kInfo : LogLevel::kWarn,
                     link.name() + " does not answer: " + said->why + "; this node keeps trying");
}

// One that welcomed this node once is as good as its lease.
void PsClient::Impl::io_denied(ServerLink& link, const Status& why) {
  Status denied = Status(why).with_context(link.name());
  if (link.welcomed()) return options_.log.warn(denied.message());
  if (!io_joining_.keeps_asking()) return close(std::move(denied));
  io_joining_.turned_away(link, why.message(), options_.clock());
}

// Every cluster.heartbeat: says that we live, and looks who does not.
void PsClient::Impl::io_beat() {
  io_waits_.discount_pause_of(options_.clock(), io_links_);
  if (state_.closed().is_ok()) {  // else nobody waits any more
    if (Status answered = io_waits_.check(options_.clock(), io_links_); !answered.is_ok())
      return leave(answered);
    io_waits_.tell(options_.clock(), io_links_);
  }
  for (ServerLink& link : io_links_) {
    if (Status alive = link.check_silence(options_.clock(), options_.cluster.lease); !alive.is_ok()) {
      if (io_joining_.keeps_asking()) {
        io_joining_.turned_away(link, alive.message(), options_.clock());
      } else if (io_waits_.needs(link.shard) && !io_looks_elsewhere(link, options_.clock())) {
        return io_lose(lost_with(link), alive);
      }
    } else if (link.broken && link.endpoints.size() > 1 && !io_looks_elsewhere(link, options_.clock())) {
      return io_lose(lost_with(link), deadline_exceeded(link.name() + ": no replica of it answers"));
    }
    io_say_why_unanswered(link);
    io_joining_.look_elsewhere(link, options_.clock());
    if (Status asked = io_join(link); !asked.is_ok()) return close(std::move(asked));
    // A full queue is no reason to give up: what fills it will show as silence soon enough.
    if (!link.welcomed() || link.broken || !link.socket || left_) continue;
    const bool says_more = link.shard == kAuthority && options_.heartbeat;
    (void)link.socket->send({says_more ? options_.heartbeat() : wire::Heartbeat{}, {}});
  }
  heartbeat_.expires_after(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_.cluster.heartbeat));
  heartbeat_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !io_shut_) io_beat();
  });
}

void PsClient::Impl::io_receive(ServerLink& link, Result<wire::Message> message) {
  if (link.connects_anew || (link.broken && !link.broken->connected)) return;
  link.heard = options_.clock();
  link.answers = true;
  // It may have been a grant or parameters that somebody waits for: going on would be waiting for ever.
  if (!message.is_ok()) {
    return close(invalid_argument(link.name() + " sent a malformed message: " + message.status().message()));
  }
  Status handled =
      std::visit([&](auto& body) { return io_handle(link, body, message->payload); }, message->body);
  if (!handled.is_ok()) close(std::move(handled).with_context(link.name()));
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(link.check(welcome));
  if (link.welcomed()) return link.broken ? io_back(link, welcome) : Status::ok();
  link.broken.reset();
  PACELINE_RETURN_IF_ERROR(io_check_sharing(link));
  if (link.shard == kAuthority) {  // what one of another generation has said before
    mailboxes_.clear();
    evaluations_.clear();
    io_outstanding_.forget_what_was_said();
  }
  // In front of what lets a waiter go.
  lack_parameters_ = !welcome.initialized ||
                     std::any_of(io_links_.begin(), io_links_.end(),
                                 [&](const auto& other) { return &other != &link && !other.initialized; });
  const bool says_ready = io_joining_.welcomed(link, welcome, options_.clock());
  if (!says_ready) return Status::ok();
  io_outstanding_.ready();
  ServerLink& authority = io_links_[kAuthority.value];
  return authority.broken ? Status::ok() : io_send_to_authority(authority, wire::NodeReady{});
}

// Whether its payloads and ours are shared is settled with its first message.
Status PsClient::Impl::io_check_sharing(ServerLink& link) {
  if (options_.cluster.shared_memory == SharedMemory::kOff) return Status::ok();
  const Status shares = link.socket->shares_memory();
  if (!shares.is_ok() && options_.cluster.shared_memory == SharedMemory::kOn) {
    return Status(shares).with_context("cluster.shared_memory is on, but no memory can be shared");
  }
  if (shares.is_ok()) shares_ = true;
  if (link.broken) return Status::ok();  // it is in the log
  options_.log.info("node " + to_string(options_.node) +
                    (shares.is_ok() ? " shares memory with " + link.name()
                                    : " shares no memory with " + link.name() + ": " + shares.message()));
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::Grant& grant, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(grant.worker));
  if (!io_outstanding_.granted(grant.worker.thread, grant.clock)) return Status::ok();  // said again
  return io_instruct(grant.worker.thread,
                     Granted{grant_of(grant), steady_now(), io_report_time(link, grant.worker)});
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(finish.worker));
  if (!io_outstanding_.finished(finish.worker.thread)) return Status::ok();  // said again
  return io_instruct(finish.worker.thread,
                     Finished{finish.reason, finish.held, steady_now(), io_report_time(link, finish.worker)});
}

Status PsClient::Impl::io_check_ours(WorkerId worker) const {
  if (worker.node == options_.node && worker.thread < options_.cluster.threads_per_node) return Status::ok();
  return invalid_argument("an instruction for worker " + to_string(worker) + " sent to node " +
                          to_string(options_.node) + " with " +
                          std::to_string(options_.cluster.threads_per_node) + " thread(s)");
}

// The report that is answered was encoded on this thread, the answer decoded.
ReportTime PsClient::Impl::io_report_time(const ServerLink& link, WorkerId worker) const {
  return {io_times_[worker.thread], steady_now() - link.socket->received_at()};
}

Status PsClient::Impl::io_instruct(std::uint32_t thread, Instruction instruction) {
  const auto* const granted = std::get_if<Granted>(&instruction);
  io_waits_.grants().instructed(
      thread, granted == nullptr ? std::nullopt : std::optional(granted->grant.clock), options_.clock());
  const bool wakes = granted == nullptr;
  PACELINE_RETURN_IF_ERROR(mailboxes_.put(thread, std::move(instruction)));
  if (wakes) pulls_.wake();
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink&, wire::Held& held, wire::Payload&) {
  PACELINE_RETURN_IF_ERROR(io_check_ours(held.worker));
  io_waits_.grants().held(held, options_.clock());
  PACELINE_RETURN_IF_ERROR(mailboxes_.hold(
      held.worker.thread, {held.clock, held.lead, held.waits_for, held.threshold, held.held}));
  options_.log.debug("worker " + to_string(held.worker) + " held at clock " + to_string(held.clock) + ": " +
                     to_string(held.lead) + " ahead of " + to_string(held.waits_for) + ", threshold " +
                     to_string(held.threshold));
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload) {
  return pulls_.accept(link.shard, piece, std::move(payload), options_.clock());
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&) {
  return pulls_.accept(link.shard, unchanged, options_.clock());
}

Status PsClient::Impl::io_handle(ServerLink&, wire::Evaluate& request, wire::Payload&) {
  if (options_.on_evaluate) options_.on_evaluate(request.version);
  if (!request.later && io_outstanding_.asked(request)) evaluations_.put(request);
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink&, wire::Peers& peers, wire::Payload&) {
  if (!peers.endpoints.empty()) {
    state_.peers(std::move(peers));
  } else if (options_.on_formation_over) {
    options_.on_formation_over(peers.formation);
  }
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::StateWanted& wanted, wire::Payload&) {
  const auto state = options_.state_at ? options_.state_at(wanted.version) : nullptr;
  return state == nullptr ? Status::ok() : link.send_state(state, options_.cluster.frame_bytes);
}

// Behind a connection that broke it comes anew. Of each vector what this node trains is kept.
Status PsClient::Impl::io_handle(ServerLink&, wire::NodeState& piece, wire::Payload& payload) {
  if (piece.offset == 0) {
    io_run_state_.floats.clear();
    io_state_floats_ = 0;
  }
  const std::int64_t size = layout_.size();
  const auto whole = size * (1 + kStateVectorsMax);
  if (piece.offset != io_state_floats_ || piece.offset + payload.count() > whole) {
    return invalid_argument("a piece of the run's state at " + std::to_string(piece.offset) + ", expected " +
                            std::to_string(io_state_floats_) + ", and at most " + std::to_string(whole) +
                            " floats");
  }
  const auto values = payload.floats();
  io_state_floats_ += std::ssize(values);
  const Range trained = options_.trained.value_or(Range{0, size});
  const std::int64_t at = size == 0 ? 0 : piece.offset % size;  // in its vector
  const std::int64_t begin = std::clamp(trained.begin - at, std::int64_t{0}, std::ssize(values));
  const std::int64_t end = std::clamp(trained.end - at, begin, std::ssize(values));
  io_run_state_.floats.insert(io_run_state_.floats.end(), values.begin() + begin, values.begin() + end);
  io_run_state_.version = piece.version;
  if (piece.last) state_.run_state(std::exchange(io_run_state_, {}));
  return Status::ok();
}

// A server that asks whether we are alive is answered; one that cannot be told so now asks again.
Status PsClient::Impl::io_handle(ServerLink& link, wire::Heartbeat& beat, wire::Payload&) {
  if (beat.answer != 0 && !left_) (void)link.socket->send({wire::Heartbeat{.answer = beat.answer}, {}});
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::Error& error, wire::Payload&) {
  if (error.fatal) return io_refused(link, error);
  // The exact version that the evaluator waits for has been released: it came too late.
  if (error.code == StatusCode::kNotFound &&
      pulls_.refuse_exact(link.shard, {error.code, link.name() + ": " + error.message})) {
    return Status::ok();
  }
  const bool elsewhere = link.endpoints.size() > 1 && error.code == StatusCode::kUnavailable;
  if (elsewhere && (link.broken || !link.welcomed())) {  // another replica serves, or is to
    link.answers = false;
    if (link.broken) {
      io_broken(link, link.connection, error.message);
      return Status::ok();
    }
  }
  if (io_joining_.waits_its_turn(link, error, options_.log, options_.clock())) return Status::ok();
  options_.log.warn(link.name() + " refused a message: " + error.message);
  return Status::ok();
}

// What may pass does so before all servers have welcomed this node; afterwards it says that the server is
// another process than the one that did, or has lost this node.
Status PsClient::Impl::io_refused(ServerLink& link, const wire::Error& error) {
  Status refusal(error.code, "refuses us: " + error.message);
  if (link.broken && !io_waits_.needs(link.shard)) return Status::ok();
  if (io_joining_.may_pass(link, error)) {
    io_joining_.turned_away(link, refusal.message(), options_.clock());
    return Status::ok();
  }
  const bool unknown = error.code == StatusCode::kNotFound;  // it knows this node, but not this connection
  if (io_joining_.over() && unknown && !link.broken) {
    io_broken(link, link.connection, refusal.message());
    return Status::ok();
  }
  if (!io_joining_.over() || (error.code != StatusCode::kFailedPrecondition && !unknown)) return refusal;
  io_lose(lost_with(link), std::move(refusal).with_context(link.name()));
  return Status::ok();
}

Status PsClient::Impl::io_handle(ServerLink& link, wire::RunOver& over, wire::Payload&) {
  Status how(over.code, over.message);
  const bool goes_on = over.resumable && options_.cluster.reconnect_timeout > Duration(0);
  if (goes_on && io_joining_.keeps_asking()) {
    io_joining_.turned_away(link, how.message(), options_.clock());
  } else if (goes_on) {
    io_lose(Lost::kShard, how);
  } else {
    state_.over(how);
    close(how.is_ok() ? aborted("the run is over") : std::move(how));
  }
  return Status::ok();
}

template <typename Body>
Status PsClient::Impl::io_handle(ServerLink& link, Body& body, wire::Payload&) {
  options_.log.warn(link.name() + " sent a " + wire::name_of(wire::Body(body)) +
                    ", which no server sends to a node");
  return Status::ok();
}

// Its sockets go at once, and with them what is lent to servers that will never give it back: a training
// thread may wait for that.
void PsClient::Impl::io_lose(Lost lost, const Status& why) {
  if (!state_.closed().is_ok()) return;
  leave(why, lost);
  boost::asio::post(io_, [this] { io_shut_down(); });
}

void PsClient::Impl::io_shut_down() {
  io_shut_ = true;
  heartbeat_.cancel();
  const auto since_goodbye = io_said_goodbye_ ? steady_now() - *io_said_goodbye_ : kGoodbyeIsRead;
  if (since_goodbye < kGoodbyeIsRead) {
    heartbeat_.expires_after(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(kGoodbyeIsRead - since_goodbye));
    return heartbeat_.async_wait([this](const boost::system::error_code& error) {
      if (!error) io_shut_down();
    });
  }
  // After the end of the run the servers are going: a heartbeat on its way to one that has gone would hold
  // up this process's end for the linger time. A goodbye before it must still leave, but not to one that
  // has not come back.
  const bool over = state_.run_over().has_value() && !left_;
  for (ServerLink& link : io_links_) {
    const bool gone = io_joining_.keeps_asking() && !link.welcomed();
    if (link.socket) link.socket->close(over || gone ? Queued::kIsDropped : Queued::kLeaves);
    link.socket.reset();
  }
  io_.stop();
}

}  // namespace paceline
