// PsClient's inside: what the training threads, the evaluator and the I/O thread share. What they call is
// here; what servers say is taken in ps_client_io.cc, over the connections of server_connections.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "common/ticks.h"
#include "worker/client/evaluation_queue.h"
#include "worker/client/gradient_sender.h"
#include "worker/client/io_turns.h"
#include "worker/client/ps_client.h"
#include "worker/client/pulls.h"
#include "worker/client/run_state_assembly.h"
#include "worker/client/server_connections.h"
#include "worker/client/unacked_messages.h"
#include "worker/exchange/mailboxes.h"

namespace paceline {

// Members named io_* belong to whoever runs the I/O loop (io_turns.h), but for two calls of io_connections_:
// await_joined() and shares_memory() are for any thread. Each of senders_ belongs to its training thread; everything
// else is atomic or behind a lock of its own.
class PsClient::Impl {
 public:
  // Up to this size what a round takes are its wake-ups. Of more, one thread receives while the other one takes over.
  static constexpr std::int64_t kSmallFloats = 64 * 1024;

  Impl(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache)
      : options_(std::move(options)),
        state_(options_.cluster.shards),
        parts_(trained_parts(
            options_.shards.empty() ? partition(layout.size(), options_.cluster.shards) : options_.shards,
            options_.trained.value_or(Range{0, layout.size()}))),
        slices_(cache_slices(parts_, options_.fragments)),
        pulls_(cache, options_.cluster.threads_per_node, options_.cluster.parameter_encoding,
               options_.parameters, slices_),
        mailboxes_(options_.cluster.threads_per_node),
        turns_(io_, options_.cluster.threads_per_node == 1 && layout.size() <= kSmallFloats),
        io_unacked_(options_.cluster.threads_per_node, options_.granted_ahead),
        io_connections_(
            {options_, layout, context, io_, state_, pulls_, io_unacked_}, parts_,
            {[this](ServerLink& link, wire::Message& message) { return io_take(link, message); },
             [this](Lost lost, const Status& why) { io_lose(lost, why); },
             [this](const Status& why) { leave(why); }, [this](Status why) { close(std::move(why)); }}),
        io_run_state_(layout.size(), options_.trained.value_or(Range{0, layout.size()})),
        io_times_(options_.cluster.threads_per_node) {
    PACELINE_ASSERT(own_ranges(slices_) == cache.ranges(), "a cache of other parts");
    const Encoding encoding = options_.cluster.gradient_encoding;
    std::optional<Encoder> encoder;
    if (encoding != Encoding::kFp32) encoder = {encoding, options_.cluster.top_k_share.value_or(1.0)};
    for (std::uint32_t t = 0; t < options_.cluster.threads_per_node; ++t) {
      senders_.emplace_back(own_ranges(parts_), frame_floats(options_.cluster.frame_bytes), encoder,
                            steady_now, options_.fragments);
    }
  }

  ~Impl() {
    close(aborted("the client was destroyed"));
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { io_connections_.shut_down(); });
    thread_.join();
  }

  Status start() {
    boost::asio::post(io_, [this] { io_connections_.connect_all(); });
    thread_ = std::thread([this] { turns_.run(); });
    PACELINE_ASSIGN_OR_RETURN(generation_, io_connections_.await_joined());
    return Status::ok();
  }

  // Sends what is to be asked, if it is not asked already.
  Ticket ask(Pulls::Request request) {
    if (!request.pulls.empty()) {
      boost::asio::post(io_, [this, request] {
        pulls_.asked(request.ticket);
        io_connections_.each([&](ServerLink& link) {
          const auto& shards = request.shards;
          const auto to = std::find(shards.begin(), shards.end(), link.shard);
          if (to == shards.end()) return Status::ok();
          return link.socket->send({request.pulls[static_cast<std::size_t>(to - shards.begin())], {}});
        });
      });
    }
    return request.ticket;
  }

  // All on the training thread, whose sender it is, until a part of the gradient is posted.
  void push(const Contribution& gradient) { send(sender_of(gradient.worker).rest(gradient)); }
  void push_early(const Contribution& gradient, std::int64_t begin) {
    if (auto part = sender_of(gradient.worker).early(gradient, begin)) send(*std::move(part));
  }
  void withdraw(const Contribution& gradient) {
    auto has_left = sender_of(gradient.worker).withdraw();
    if (!has_left) return;
    const wire::Withdraw withdraw{gradient.worker, gradient.clock};
    boost::asio::post(io_, [this, withdraw, has_left = *std::move(has_left)] {
      io_unacked_.withdrawn(withdraw.worker.thread, withdraw.clock);
      io_connections_.each([&](ServerLink& link) {
        if (!has_left[link.shard.value]) return Status::ok();
        return link.send({withdraw, {}});
      });
    });
  }
  GradientSender& sender_of(WorkerId worker) { return senders_.at(worker.thread); }

  void send(GradientPart part) {
    part.slices = by_shard(slices_, part.slices);
    boost::asio::post(io_, [this, part = std::move(part)] {
      io_connections_.waits().grants().pushed(part.push.worker.thread, part.whole);
      io_unacked_.pushed(part);
      io_connections_.each([&](ServerLink& link) { return part.send(link, options_.cluster.frame_bytes); });
    });
  }

  void report(wire::StepReport report) {
    boost::asio::post(io_, [this, report = std::move(report)] {
      const Ticks begun = steady_now();
      io_connections_.waits().grants().reported(report.worker.thread, report.clock, options_.clock());
      io_unacked_.reported(report);
      io_connections_.tell_authority(report);
      io_times_[report.worker.thread] = steady_now() - begun;
    });
  }

  // Behind its report a node needs nothing of the other shards, which go before the nodes are told.
  void finish(wire::NodeReport report) {
    boost::asio::post(io_, [this, report = std::move(report)] {
      io_connections_.waits().only_authority();
      io_unacked_.done(report);
      io_connections_.tell_authority(report);
    });
  }

  void report_evaluation(wire::EvaluationReport report) {
    boost::asio::post(io_, [this, report = std::move(report)] {
      io_unacked_.evaluated(report);
      io_connections_.tell_authority(report);
    });
  }

  void send_initial_parameters(std::shared_ptr<const std::vector<float>> values) {
    boost::asio::post(io_, [this, values = std::move(values)] {
      io_unacked_.initial(values);
      io_connections_.each([&](ServerLink& link) {
        return link.send_initial(values, values->data() + link.range.begin, options_.cluster.frame_bytes);
      });
    });
  }

  void say_at_start(wire::Body body) {
    boost::asio::post(io_, [this, body = std::move(body)] {
      io_unacked_.at_start(body);
      io_connections_.tell_authority(body);
    });
  }

  void send_final_state(std::shared_ptr<const RunState> state) {
    boost::asio::post(io_, [this, state = std::move(state)] {
      io_unacked_.final_state(state);
      io_connections_.each(
          [&](ServerLink& link) { return link.send_state(state, options_.cluster.frame_bytes); });
    });
  }

  bool shares_memory() const { return io_connections_.shares_memory(); }

  // Of the node's only training thread, where the model is small; else nothing.
  IoTurns::Wait waits_for(std::function<bool()> done) { return {turns_, std::move(done)}; }

  void close(Status why, Lost lost = Lost::kNothing) {
    if (!state_.close(why, lost)) return;
    mailboxes_.close(why);
    evaluations_.close(why);
    pulls_.close(std::move(why));
    boost::asio::post(io_, [] {});  // who runs the loop and waits is to look
    options_.on_closed();
  }

  void leave(const Status& why, Lost lost = Lost::kNothing, std::optional<NodeId> gone = std::nullopt) {
    if (!state_.leave()) return;
    boost::asio::post(
        io_, [this, leave = wire::Leave{why.message(), gone}] { io_connections_.say_goodbye(leave); });
    close(why, lost);
  }

  const PsClientOptions options_;
  ClientState state_;
  const std::vector<ShardPart> parts_;  // by shard
  const std::vector<CacheSlice> slices_;
  Pulls pulls_;
  Mailboxes mailboxes_;
  EvaluationQueue evaluations_;
  std::atomic<bool> lack_parameters_ = true;  // some server does
  std::uint64_t generation_ = 0;              // of all servers, once started
  std::vector<GradientSender> senders_;       // by thread, which alone uses its own

 private:
  // ---- on the I/O thread
  Status io_take(ServerLink& link, wire::Message& message);
  Status io_handle(ServerLink& link, wire::Welcome& welcome, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Grant& grant, wire::Payload&);
  Status io_handle(ServerLink& link, wire::FinishWorker& finish, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Held& held, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Parameters& piece, wire::Payload& payload);
  Status io_handle(ServerLink& link, wire::Unchanged& unchanged, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Evaluate& request, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Peers& peers, wire::Payload&);
  Status io_handle(ServerLink& link, wire::StateWanted& wanted, wire::Payload&);
  Status io_handle(ServerLink& link, wire::NodeState& piece, wire::Payload& payload);
  Status io_handle(ServerLink& link, wire::Heartbeat&, wire::Payload&);
  Status io_handle(ServerLink& link, wire::Error& error, wire::Payload&);
  Status io_handle(ServerLink& link, wire::RunOver& over, wire::Payload&);
  template <typename Body>
  Status io_handle(ServerLink& link, Body& body, wire::Payload&);
  Status io_check_ours(WorkerId worker) const;
  ReportTime io_report_time(const ServerLink& link, WorkerId worker) const;
  Status io_instruct(std::uint32_t thread, Instruction instruction);
  void io_lose(Lost lost, const Status& why);

  boost::asio::io_context io_;
  IoTurns turns_;
  UnackedMessages io_unacked_;
  ServerConnections io_connections_;
  RunStateAssembly io_run_state_;
  std::vector<std::chrono::nanoseconds> io_times_;  // per thread: of its last report
  std::thread thread_;
};

}  // namespace paceline
