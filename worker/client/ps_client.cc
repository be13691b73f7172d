#include "worker/client/ps_client.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "common/ticks.h"

namespace paceline {
namespace {

// Up to this size what a round takes are its wake-ups. Of more, one thread receives while the other one takes over.
constexpr std::int64_t kSmallFloats = 64 * 1024;

}  // namespace

PsClient::PsClient(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache)
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
      io_waits_(options_.node, options_.cluster, options_.lost != Lost::kNothing, options_.log, pulls_,
                options_.own_waits),
      io_connections_(
          {options_, layout, context, io_, state_, pulls_, io_unacked_, io_waits_}, parts_,
          {[this](const ServerLink& link, const wire::Welcome& welcome) { received_.joined(link, welcome); },
           [this](ServerLink& link, Result<wire::Message> message) {
             received_.take(link, std::move(message));
           },
           [this](Lost lost, const Status& why) { io_lose(lost, why); },
           [this](const Status& why) { leave(why); }, [this](Status why) { close(std::move(why)); }}),
      received_({options_, state_, pulls_, mailboxes_, evaluations_, io_unacked_, io_waits_, io_connections_},
                layout, [this](Status why) { close(std::move(why)); }) {
  PACELINE_ASSERT(own_ranges(slices_) == cache.ranges(), "a cache of other parts");
  const Encoding encoding = options_.cluster.gradient_encoding;
  std::optional<Encoder> encoder;
  if (encoding != Encoding::kFp32) encoder = {encoding, options_.cluster.top_k_share.value_or(1.0)};
  for (std::uint32_t t = 0; t < options_.cluster.threads_per_node; ++t) {
    senders_.emplace_back(own_ranges(parts_), frame_floats(options_.cluster.frame_bytes), encoder, steady_now,
                          options_.fragments);
  }
}

PsClient::~PsClient() {
  close(aborted("the client was destroyed"));
  disconnect();
}

void PsClient::disconnect() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { io_connections_.shut_down(); });
  thread_.join();
}

Status PsClient::start() {
  boost::asio::post(io_, [this] { io_connections_.connect_all(); });
  thread_ = std::thread([this] { turns_.run(); });
  PACELINE_ASSIGN_OR_RETURN(generation_, io_connections_.await_joined());
  return Status::ok();
}

Ticket PsClient::ask(Pulls::Request request) {
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

void PsClient::send_initial_parameters(std::vector<float> all) {
  boost::asio::post(io_, [this, values = std::make_shared<const std::vector<float>>(std::move(all))] {
    io_unacked_.initial(values);
    io_connections_.each([&](ServerLink& link) {
      return link.send_initial(values, values->data() + link.range.begin, options_.cluster.frame_bytes);
    });
  });
}

void PsClient::send_at_start(wire::Body body) {
  boost::asio::post(io_, [this, body = std::move(body)] {
    io_unacked_.at_start(body);
    io_connections_.send_to_authority(body);
  });
}

Result<wire::Peers> PsClient::exchange_endpoints(wire::Peers own, std::chrono::nanoseconds timeout) {
  const std::uint32_t left = own.formation;
  send_at_start(std::move(own));
  return state_.await_peers(left, timeout);
}

Result<RunState> PsClient::fetch_state(std::chrono::nanoseconds timeout) {
  send_at_start(wire::StateWanted{});
  return state_.await_run_state(timeout);
}

void PsClient::send_final_state(std::shared_ptr<const RunState> state) {
  boost::asio::post(io_, [this, state = std::move(state)] {
    io_unacked_.final_state(state);
    io_connections_.each(
        [&](ServerLink& link) { return link.send_state(state, options_.cluster.frame_bytes); });
  });
}

void PsClient::fail_run(const Status& why) {
  boost::asio::post(io_, [this, error = wire::Error{why.code(), why.message(), /*fatal=*/true}] {
    io_connections_.send_to_authority(error);
  });
}

Result<Instruction> PsClient::next_instruction(std::uint32_t thread) {
  const auto wait = waits_for([&] { return mailboxes_.has_come(thread); });
  return mailboxes_.take(thread);
}

// The next three on the training thread, whose sender it is, until a part of the gradient is posted.
void PsClient::push(Contribution gradient) { send(senders_.at(gradient.worker.thread).rest(gradient)); }

void PsClient::push_early(const Contribution& gradient, std::int64_t begin) {
  if (auto part = senders_.at(gradient.worker.thread).early(gradient, begin)) send(*std::move(part));
}

void PsClient::withdraw(const Contribution& gradient) {
  auto has_left = senders_.at(gradient.worker.thread).withdraw();
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

void PsClient::send(GradientPart part) {
  part.slices = by_shard(slices_, part.slices);
  boost::asio::post(io_, [this, part = std::move(part)] {
    io_waits_.grants().pushed(part.push.worker.thread, part.whole);
    io_unacked_.pushed(part);
    io_connections_.each([&](ServerLink& link) { return part.send(link, options_.cluster.frame_bytes); });
  });
}

std::int64_t PsClient::floats_at_once() const {
  // Where something is owed, parts cost more passes (gradient_encoder.h) than their overlap gains.
  if (!only_rounds(options_.cluster.gradient_encoding)) return Exchange::floats_at_once();
  return options_.floats_at_once;
}

EarlyPush PsClient::pushed_early(WorkerId worker, Ticks until) const {
  return senders_.at(worker.thread).pushed_early(until);
}

void PsClient::report(RoundReport round) {
  wire::StepReport report{round.worker,
                          round.clock,
                          round.metric,
                          round.computed_version,
                          round.computed_revision,
                          round.skipped,
                          std::move(round.fault),
                          round.own_updates,
                          round.compute,
                          round.loss_scale};
  boost::asio::post(io_, [this, report = std::move(report)] {
    const Ticks begun = steady_now();
    io_waits_.grants().reported(report.worker.thread, report.clock, options_.clock());
    io_unacked_.reported(report);
    io_connections_.send_to_authority(report);
    received_.report_encoded(report.worker.thread, steady_now() - begun);
  });
}

Ticket PsClient::request_parameters(Version min_version) {
  return ask(pulls_.request(min_version, options_.clock()));
}

Ticket PsClient::request_fragment(Version min_version, std::int64_t n) {
  return ask(pulls_.request(min_version, options_.clock(), n));
}

Ticket PsClient::request_early(Version min_version) {
  return ask(pulls_.request_early(min_version, options_.clock()));
}

Result<Ticks> PsClient::await_parameters(Ticket ticket, ParameterSink& sink) {
  const auto wait = waits_for([&] { return pulls_.is_over(ticket); });
  return pulls_.await(ticket, sink);
}

Result<std::optional<Ticks>> PsClient::await_early(std::uint32_t thread, Ticket ticket, ParameterSink& sink) {
  const auto unneeded = [&] { return mailboxes_.finished(thread); };
  const auto wait = waits_for([&] { return pulls_.is_over(ticket) || unneeded(); });
  return pulls_.await_unless(unneeded, ticket, sink);
}

Status PsClient::fetch_exact(Version version, std::span<float> flat) {
  const Ticket ticket = ask(pulls_.request_exact(version, options_.clock()));
  PACELINE_ASSIGN_OR_RETURN(const Snapshot snapshot, pulls_.collect(ticket));
  for (const auto& slice : snapshot) slice->copy_to(flat);
  return Status::ok();
}

void PsClient::report_evaluation(wire::EvaluationReport report) {
  boost::asio::post(io_, [this, report = std::move(report)] {
    io_unacked_.evaluated(report);
    io_connections_.send_to_authority(report);
  });
}

// After its report a node needs nothing of the other shards, which go before the nodes are told.
Status PsClient::finish(wire::NodeReport report) {
  boost::asio::post(io_, [this, report = std::move(report)] {
    io_waits_.only_authority();
    io_unacked_.done(report);
    io_connections_.send_to_authority(report);
  });
  return state_.await_end();
}

void PsClient::close(Status why, Lost lost) {
  if (!state_.close(why, lost)) return state_.expect_no_end();
  mailboxes_.close(why);
  evaluations_.close(why);
  pulls_.close(std::move(why));
  boost::asio::post(io_, [] {});  // who runs the loop and waits is to look
  options_.on_closed();
}

void PsClient::leave(const Status& why, std::optional<NodeId> gone, Lost lost, bool has_finished) {
  if (!state_.leave()) return;
  boost::asio::post(io_, [this, leave = wire::Leave{why.message(), gone, has_finished}] {
    io_connections_.send_leave(leave);
  });
  close(why, lost);
}

// Its sockets go at once, and with them what is lent to servers that will never give it back: a training
// thread may wait for that.
void PsClient::io_lose(Lost lost, const Status& why) {
  if (!state_.closed().is_ok()) return;
  leave(why, std::nullopt, lost);
  boost::asio::post(io_, [this] { io_connections_.shut_down(); });
}

}  // namespace paceline
