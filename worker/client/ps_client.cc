#include "worker/client/ps_client.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "common/ticks.h"
#include "common/wire/segment_sizes.h"
#include "worker/client/client_waits.h"
#include "worker/client/evaluation_queue.h"
#include "worker/client/gradient_sender.h"
#include "worker/client/joining.h"
#include "worker/client/mailboxes.h"
#include "worker/client/pulls.h"
#include "worker/client/server_link.h"

namespace paceline {

using Queued = wire::DealerSocket::Queued;

// Members named io_* belong to the I/O thread, each of senders_ to its training thread; everything else is
// atomic or behind a lock of its own.
class PsClient::Impl {
 public:
  Impl(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache)
      : options_(std::move(options)),
        layout_(layout),
        context_(context),
        state_(cache.ranges().size()),
        pulls_(cache, options_.cluster.threads_per_node, options_.cluster.parameter_encoding),
        mailboxes_(options_.cluster.threads_per_node),
        heartbeat_(io_),
        io_joining_(io_links_, state_, options_.lost, options_.last_generation, options_.cluster),
        io_waits_(options_.node, options_.cluster, options_.log, pulls_),
        io_times_(options_.cluster.threads_per_node) {
    for (std::uint32_t k = 0; k < cache.ranges().size(); ++k) {
      io_links_.push_back(
          {ShardId(k), options_.cluster.endpoints.at(k), cache.ranges()[k], nullptr, 0, false, {}, {}});
    }
    const Encoding encoding = options_.cluster.gradient_encoding;
    std::optional<Encoder> encoder;
    if (encoding != Encoding::kFp32) encoder = {encoding, options_.cluster.top_k_share.value_or(1.0)};
    for (std::uint32_t t = 0; t < options_.cluster.threads_per_node; ++t) {
      senders_.emplace_back(cache.ranges(), frame_floats(options_.cluster.frame_bytes), encoder, steady_now);
    }
  }

  ~Impl() {
    close(aborted("the client was destroyed"));
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { io_shut_down(); });
    thread_.join();
  }

  Status start() {
    boost::asio::post(io_, [this] { io_connect_all(); });
    thread_ = std::thread([this] {
      const auto until_stopped = boost::asio::make_work_guard(io_);
      io_.run();
    });
    const std::chrono::nanoseconds timeout = io_joining_.timeout(options_.cluster);
    PACELINE_ASSIGN_OR_RETURN(const auto servers, state_.await_welcomes(timeout));
    PACELINE_RETURN_IF_ERROR(io_joining_.check_joined(servers, options_.node, timeout));
    generation_ = servers.front().generation;
    return Status::ok();
  }

  // Sends on the I/O thread; what cannot be sent closes the client.
  template <typename Send>
  void on_links(Send send) {
    boost::asio::post(io_, [this, send = std::move(send)] { io_on_links(send); });
  }
  void to_authority(wire::Body body) {
    on_links([body = std::move(body)](ServerLink& link) { return io_send_to_authority(link, body); });
  }

  // Sends what is to be asked, if it is not asked already.
  Ticket ask(Pulls::Request request) {
    if (!request.pulls.empty()) {
      on_links([pulls = std::move(request.pulls)](ServerLink& link) {
        return link.socket->send({pulls[link.shard.value], {}});
      });
    }
    return request.ticket;
  }

  // All on the training thread, whose sender it is, until a part of the gradient is posted.
  void push(const LocalGradient& gradient) { send(sender_of(gradient.worker).rest(gradient)); }
  void push_early(const LocalGradient& gradient, std::int64_t begin) {
    if (auto part = sender_of(gradient.worker).early(gradient, begin)) send(*std::move(part));
  }
  void withdraw(const LocalGradient& gradient) {
    auto has_left = sender_of(gradient.worker).withdraw();
    if (!has_left) return;
    const wire::Withdraw withdraw{gradient.worker, gradient.clock};
    on_links([withdraw, has_left = *std::move(has_left)](ServerLink& link) {
      if (!has_left[link.shard.value]) return Status::ok();
      return link.socket->send({withdraw, {}}).with_context("to " + link.name());
    });
  }
  GradientSender& sender_of(WorkerId worker) { return senders_.at(worker.thread); }

  void send(GradientPart part) {
    boost::asio::post(io_, [this, part = std::move(part)] {
      io_waits_.grants().pushed(part.push.worker.thread, part.whole);
      io_on_links([&](ServerLink& link) { return part.send(link, options_.cluster.frame_bytes); });
    });
  }

  void report(wire::StepReport report) {
    boost::asio::post(io_, [this, report = std::move(report)] {
      const Ticks begun = steady_now();
      io_waits_.grants().reported(report.worker.thread, report.clock, begun);
      io_on_links([&](ServerLink& link) { return io_send_to_authority(link, report); });
      io_times_[report.worker.thread] = steady_now() - begun;
    });
  }

  // Behind its report a node needs nothing of the other shards, which go before the nodes are told.
  void finish(wire::NodeReport report) {
    boost::asio::post(io_, [this] { io_waits_.only_authority(); });
    to_authority(std::move(report));
  }

  void close(Status why, Lost lost = Lost::kNothing) {
    if (!state_.close(why, lost)) return;
    mailboxes_.close(why);
    evaluations_.close(why);
    pulls_.close(std::move(why));
    options_.on_closed();
  }

  void leave(const Status& why, Lost lost = Lost::kNothing) {
    if (left_.exchange(true)) return;
    on_links([fault = why.message()](ServerLink& link) {
      return link.socket->send({wire::Leave{fault}, {}});
    });
    close(why, lost);
  }

  const PsClientOptions options_;
  const Layout& layout_;
  wire::Context& context_;
  ClientState state_;
  Pulls pulls_;
  Mailboxes mailboxes_;
  EvaluationQueue evaluations_;
  std::atomic<bool> shares_ = false;     // memory, with a server
  std::uint64_t generation_ = 0;         // of all servers, once started
  std::vector<GradientSender> senders_;  // by thread, which alone uses its own

 private:
  // ---- on the I/O thread

  template <typename Send>
  void io_on_links(const Send& send) {
    for (ServerLink& link : io_links_) {
      if (link.socket == nullptr) continue;  // never connected, or shut down
      if (Status sent = send(link); !sent.is_ok()) return io_lose(lost_with(link), sent);
    }
  }
  static Status io_send_to_authority(ServerLink& link, const wire::Body& body) {
    return link.shard == kAuthority ? link.socket->send({body, {}}).with_context("to " + link.name())
                                    : Status::ok();
  }

  void io_connect_all() {
    for (ServerLink& link : io_links_) {
      if (Status asked = io_connect(link); !asked.is_ok()) return close(std::move(asked));
    }
    io_waits_.begin(steady_now());
    io_beat();
  }
  Status io_connect(ServerLink& link) {
    wire::TransportOptions transport;
    transport.memory = options_.memory;
    transport.their_memory_bytes_max = wire::parameter_segment_bytes(link.range.size());
    transport.client_keys = options_.keys;
    transport.on_denied = [this, &link](const Status& why) { io_denied(link, why); };
    auto socket = wire::DealerSocket::connect(
        context_, io_, link.endpoint, transport,
        [this, &link](Result<wire::Message> message) { io_receive(link, std::move(message)); });
    if (!socket.is_ok()) return Status(socket.status()).with_context(link.name());
    link.socket = std::move(socket).value();
    return io_ask(link);
  }
  Status io_ask(ServerLink& link) {
    io_joining_.asked(link, steady_now());
    return link.socket->send(
        {wire::Join{wire::kProtocolVersion, options_.node, options_.incarnation,
                    options_.cluster.threads_per_node, options_.config_fingerprint, layout_.hash(),
                    layout_.tensors(), options_.data_fingerprint, options_.last_generation},
         {}});
  }
  // What is due of a join that has not been answered, or not well.
  Status io_join(ServerLink& link) {
    if (!state_.closed().is_ok()) return Status::ok();
    switch (io_joining_.due(link, steady_now())) {
      case Joining::Due::kNothing:
        return Status::ok();
      case Joining::Due::kJoin:
        return io_ask(link);
      case Joining::Due::kConnection:
        (void)link.socket->send({wire::Leave{"it joins again over another connection"}, {}});
        link.socket->close();
        return io_connect(link);
    }
    return Status::ok();
  }

  // One that welcomed this node once is as good as its lease.
  void io_denied(ServerLink& link, const Status& why) {
    Status denied = Status(why).with_context(link.name());
    if (link.welcomed()) return options_.log.warn(denied.message());
    if (!io_joining_.keeps_asking()) return close(std::move(denied));
    io_joining_.turned_away(link, why.message(), steady_now());
  }

  // Every cluster.heartbeat: says that we live, and looks who does not.
  void io_beat() {
    io_waits_.forgive_pause(steady_now(), io_links_);
    if (state_.closed().is_ok()) {  // else nobody waits any more
      if (Status answered = io_waits_.check(steady_now(), io_links_); !answered.is_ok())
        return leave(answered);
      io_waits_.tell(steady_now(), io_links_);
    }
    for (ServerLink& link : io_links_) {
      if (Status alive = link.check_silence(steady_now(), options_.cluster.lease); !alive.is_ok()) {
        if (io_joining_.keeps_asking()) {
          io_joining_.turned_away(link, alive.message(), steady_now());
        } else if (io_waits_.needs(link.shard)) {
          return io_lose(lost_with(link), alive);
        }
      }
      if (Status asked = io_join(link); !asked.is_ok()) return close(std::move(asked));
      // A full queue is no reason to give up: what fills it will show as silence soon enough.
      if (!link.welcomed() || !link.socket || left_) continue;
      const bool says_more = link.shard == kAuthority && options_.heartbeat;
      (void)link.socket->send({says_more ? options_.heartbeat() : wire::Heartbeat{}, {}});
    }
    heartbeat_.expires_after(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_.cluster.heartbeat));
    heartbeat_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !io_shut_) io_beat();
    });
  }

  void io_receive(ServerLink& link, Result<wire::Message> message) {
    if (link.connects_anew) return;
    link.heard = steady_now();
    // It may have been a grant or parameters that somebody waits for: going on would be waiting for ever.
    if (!message.is_ok()) {
      return close(
          invalid_argument(link.name() + " sent a malformed message: " + message.status().message()));
    }
    Status handled =
        std::visit([&](auto& body) { return io_handle(link, body, message->payload); }, message->body);
    if (!handled.is_ok()) close(std::move(handled).with_context(link.name()));
  }

  Status io_handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&) {
    PACELINE_RETURN_IF_ERROR(link.check(welcome));
    if (link.welcomed()) return Status::ok();
    PACELINE_RETURN_IF_ERROR(io_check_sharing(link));
    if (link.shard == kAuthority) {  // what one of another generation has said before
      mailboxes_.clear();
      evaluations_.clear();
    }
    const bool says_ready = io_joining_.welcomed(link, welcome, steady_now());
    return says_ready ? io_send_to_authority(io_links_[kAuthority.value], wire::NodeReady{}) : Status::ok();
  }
  // Whether its payloads and ours are shared is settled with its first message.
  Status io_check_sharing(ServerLink& link) {
    if (options_.cluster.shared_memory == SharedMemory::kOff) return Status::ok();
    const Status shares = link.socket->shares_memory();
    if (!shares.is_ok() && options_.cluster.shared_memory == SharedMemory::kOn) {
      return Status(shares).with_context("cluster.shared_memory is on, but no memory can be shared");
    }
    if (shares.is_ok()) shares_ = true;
    options_.log.info("node " + to_string(options_.node) +
                      (shares.is_ok() ? " shares memory with " + link.name()
                                      : " shares no memory with " + link.name() + ": " + shares.message()));
    return Status::ok();
  }
  Status io_handle(ServerLink& link, wire::Grant& grant, wire::Payload&) {
    PACELINE_RETURN_IF_ERROR(io_check_ours(grant.worker));
    return io_instruct(grant.worker.thread, Granted{grant, steady_now(), io_report_time(link, grant.worker)});
  }
  Status io_handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&) {
    PACELINE_RETURN_IF_ERROR(io_check_ours(finish.worker));
    return io_instruct(finish.worker.thread, Finished{finish.reason, finish.held, steady_now(),
                                                      io_report_time(link, finish.worker)});
  }
  Status io_check_ours(WorkerId worker) const {
    if (worker.node == options_.node && worker.thread < options_.cluster.threads_per_node)
      return Status::ok();
    return invalid_argument("an instruction for worker " + to_string(worker) + " sent to node " +
                            to_string(options_.node) + " with " +
                            std::to_string(options_.cluster.threads_per_node) + " thread(s)");
  }
  // The report that is answered was encoded on this thread, the answer decoded.
  ReportTime io_report_time(const ServerLink& link, WorkerId worker) const {
    return {io_times_[worker.thread], steady_now() - link.socket->received_at()};
  }
  Status io_instruct(std::uint32_t thread, Instruction instruction) {
    io_waits_.grants().instructed(thread, steady_now());
    const bool wakes = std::holds_alternative<Finished>(instruction);
    PACELINE_RETURN_IF_ERROR(mailboxes_.put(thread, std::move(instruction)));
    if (wakes) pulls_.wake();
    return Status::ok();
  }
  Status io_handle(ServerLink&, wire::Held& held, wire::Payload&) {
    PACELINE_RETURN_IF_ERROR(io_check_ours(held.worker));
    io_waits_.grants().held(held, steady_now());
    options_.log.debug("worker " + to_string(held.worker) + " held at clock " + to_string(held.clock) + ": " +
                       to_string(held.lead) + " ahead of " + to_string(held.waits_for) + ", threshold " +
                       to_string(held.threshold));
    return Status::ok();
  }
  Status io_handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload) {
    return pulls_.accept(link.shard, piece, std::move(payload), steady_now());
  }
  Status io_handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&) {
    return pulls_.accept(link.shard, unchanged, steady_now());
  }
  Status io_handle(ServerLink&, wire::Evaluate& request, wire::Payload&) {
    evaluations_.put(request);
    return Status::ok();
  }
  Status io_handle(ServerLink&, wire::Heartbeat&, wire::Payload&) { return Status::ok(); }
  Status io_handle(ServerLink& link, wire::Error& error, wire::Payload&) {
    if (error.fatal) return io_refused(link, error);
    // The exact version that the evaluator waits for has been released: it came too late.
    if (error.code == StatusCode::kNotFound &&
        pulls_.refuse_exact(link.shard, {error.code, link.name() + ": " + error.message})) {
      return Status::ok();
    }
    if (io_joining_.waits_its_turn(link, error, options_.log, steady_now())) return Status::ok();
    options_.log.warn(link.name() + " refused a message: " + error.message);
    return Status::ok();
  }
  // What may pass does so before all servers have welcomed this node; afterwards it says that the server is
  // another process than the one that did, or has lost this node.
  Status io_refused(ServerLink& link, const wire::Error& error) {
    Status refusal(error.code, "refuses us: " + error.message);
    if (io_joining_.may_pass(link, error)) {
      io_joining_.turned_away(link, refusal.message(), steady_now());
      return Status::ok();
    }
    if (!io_joining_.over() || error.code != StatusCode::kFailedPrecondition) return refusal;
    io_lose(lost_with(link), std::move(refusal).with_context(link.name()));
    return Status::ok();
  }
  Status io_handle(ServerLink& link, wire::RunOver& over, wire::Payload&) {
    Status how(over.code, over.message);
    const bool goes_on = over.resumable && options_.cluster.reconnect_timeout > Duration(0);
    if (goes_on && io_joining_.keeps_asking()) {
      io_joining_.turned_away(link, how.message(), steady_now());
    } else if (goes_on) {
      io_lose(Lost::kShard, how);
    } else {
      state_.over(how);
      close(how.is_ok() ? aborted("the run is over") : std::move(how));
    }
    return Status::ok();
  }
  template <typename Body>
  Status io_handle(ServerLink& link, Body& body, wire::Payload&) {
    options_.log.warn(link.name() + " sent a " + wire::name_of(wire::Body(body)) +
                      ", which no server sends to a node");
    return Status::ok();
  }

  static Lost lost_with(const ServerLink& link) {
    return link.shard == kAuthority ? Lost::kTheAuthority : Lost::kShard;
  }
  // Its sockets go at once, and with them what is lent to servers that will never give it back: a training
  // thread may wait for that.
  void io_lose(Lost lost, const Status& why) {
    if (!state_.closed().is_ok()) return;
    leave(why, lost);
    boost::asio::post(io_, [this] { io_shut_down(); });
  }

  void io_shut_down() {
    io_shut_ = true;
    heartbeat_.cancel();
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

  std::atomic<bool> left_ = false;

  boost::asio::io_context io_;
  boost::asio::steady_timer heartbeat_;
  std::vector<ServerLink> io_links_;
  Joining io_joining_;
  ClientWaits io_waits_;
  std::vector<std::chrono::nanoseconds> io_times_;  // per thread: what sending its last report took
  bool io_shut_ = false;
  std::thread thread_;
};

PsClient::PsClient(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache)
    : impl_(std::make_unique<Impl>(std::move(options), layout, context, cache)) {}
PsClient::~PsClient() = default;

Status PsClient::start() { return impl_->start(); }

bool PsClient::shares_memory() const { return impl_->shares_; }
std::uint64_t PsClient::generation() const { return impl_->generation_; }

void PsClient::send_initial_parameters(std::vector<float> values) {
  auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  impl_->on_links([owner, frame = impl_->options_.cluster.frame_bytes](ServerLink& link) {
    return link.send_initial(owner, owner->data() + link.range.begin, frame);
  });
}

Result<Instruction> PsClient::next_instruction(std::uint32_t thread) {
  return impl_->mailboxes_.take(thread);
}

void PsClient::push(LocalGradient gradient) { impl_->push(gradient); }

void PsClient::push_early(const LocalGradient& gradient, std::int64_t begin) {
  impl_->push_early(gradient, begin);
}

std::int64_t PsClient::floats_at_once() const {
  // Where something is owed, parts cost more passes (gradient_encoder.h) than their overlap gains.
  if (!only_rounds(impl_->options_.cluster.gradient_encoding)) return ParameterExchange::floats_at_once();
  return impl_->options_.floats_at_once;
}

EarlyPush PsClient::pushed_early(WorkerId worker, Ticks until) const {
  return impl_->senders_.at(worker.thread).pushed_early(until);
}

void PsClient::withdraw(const LocalGradient& gradient) { impl_->withdraw(gradient); }

void PsClient::report(wire::StepReport report) { impl_->report(std::move(report)); }

Ticket PsClient::request_parameters(Version min_version) {
  return impl_->ask(impl_->pulls_.request(min_version, steady_now()));
}

Ticket PsClient::request_ahead(Version min_version) {
  return impl_->ask(impl_->pulls_.request_ahead(min_version, steady_now()));
}

Result<Ticks> PsClient::await_parameters(Ticket ticket, ParameterLanding& landing) {
  return impl_->pulls_.await(ticket, landing);
}

Result<std::optional<Ticks>> PsClient::await_ahead(std::uint32_t thread, Ticket ticket,
                                                   ParameterLanding& landing) {
  return impl_->pulls_.await_unless([&] { return impl_->mailboxes_.finished(thread); }, ticket, landing);
}

std::optional<Ticks> PsClient::parameters_installed(Ticket ticket) { return impl_->pulls_.answered(ticket); }

Result<wire::Evaluate> PsClient::next_evaluation() { return impl_->evaluations_.take(); }

Status PsClient::fetch_exact(Version version, std::span<float> flat) {
  const Ticket ticket = impl_->ask(impl_->pulls_.request_exact(version, steady_now()));
  PACELINE_ASSIGN_OR_RETURN(const Snapshot snapshot, impl_->pulls_.collect(ticket));
  for (const auto& slice : snapshot) slice->copy_to(flat);
  return Status::ok();
}

void PsClient::report_evaluation(wire::EvaluationReport report) { impl_->to_authority(std::move(report)); }

Status PsClient::finish(wire::NodeReport report) {
  impl_->finish(std::move(report));
  return impl_->state_.await_end();
}

void PsClient::leave(const Status& why) { impl_->leave(why); }
void PsClient::close(Status why) { impl_->close(std::move(why)); }
Status PsClient::closed() const { return impl_->state_.closed(); }
Lost PsClient::lost() const { return impl_->state_.lost(); }
std::optional<Status> PsClient::run_over() const { return impl_->state_.run_over(); }

}  // namespace paceline
