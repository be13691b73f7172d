#include "worker/client/ps_client.h"

#include <span>
#include <utility>

#include "common/ticks.h"
#include "worker/client/ps_client_impl.h"

namespace paceline {

PsClient::PsClient(PsClientOptions options, const Layout& layout, wire::Context& context, ProcessCache& cache)
    : impl_(std::make_unique<Impl>(std::move(options), layout, context, cache)) {}
PsClient::~PsClient() = default;

Status PsClient::start() { return impl_->start(); }

bool PsClient::shares_memory() const { return impl_->shares_memory(); }
std::uint64_t PsClient::generation() const { return impl_->generation_; }

void PsClient::send_initial_parameters(std::vector<float> values) {
  impl_->send_initial_parameters(std::make_shared<const std::vector<float>>(std::move(values)));
}

Result<wire::Peers> PsClient::exchange_endpoints(wire::Peers own, std::chrono::nanoseconds timeout) {
  const std::uint32_t left = own.formation;
  impl_->say_at_start(std::move(own));
  return impl_->state_.await_peers(left, timeout);
}

Result<RunState> PsClient::fetch_state(std::chrono::nanoseconds timeout) {
  impl_->say_at_start(wire::StateWanted{});
  return impl_->state_.await_run_state(timeout);
}

void PsClient::send_final_state(std::shared_ptr<const RunState> state) {
  impl_->send_final_state(std::move(state));
}

Result<Instruction> PsClient::next_instruction(std::uint32_t thread) {
  const auto wait = impl_->waits_for([&] { return impl_->mailboxes_.has_come(thread); });
  return impl_->mailboxes_.take(thread);
}

void PsClient::push(Contribution gradient) { impl_->push(gradient); }

void PsClient::push_early(const Contribution& gradient, std::int64_t begin) {
  impl_->push_early(gradient, begin);
}

std::int64_t PsClient::floats_at_once() const {
  // Where something is owed, parts cost more passes (gradient_encoder.h) than their overlap gains.
  if (!only_rounds(impl_->options_.cluster.gradient_encoding)) return Exchange::floats_at_once();
  return impl_->options_.floats_at_once;
}

EarlyPush PsClient::pushed_early(WorkerId worker, Ticks until) const {
  return impl_->senders_.at(worker.thread).pushed_early(until);
}

void PsClient::withdraw(const Contribution& gradient) { impl_->withdraw(gradient); }

void PsClient::report(RoundReport report) {
  impl_->report({report.worker, report.clock, report.metric, report.computed_version,
                 report.computed_revision, report.skipped, std::move(report.fault), report.own_updates,
                 report.compute});
}

std::optional<HeldBack> PsClient::held(std::uint32_t thread) const { return impl_->mailboxes_.held(thread); }

Ticket PsClient::request_parameters(Version min_version) {
  return impl_->ask(impl_->pulls_.request(min_version, impl_->options_.clock()));
}

Ticket PsClient::request_fragment(Version min_version, std::int64_t n) {
  return impl_->ask(impl_->pulls_.request(min_version, impl_->options_.clock(), n));
}

Ticket PsClient::request_ahead(Version min_version) {
  return impl_->ask(impl_->pulls_.request_ahead(min_version, impl_->options_.clock()));
}

Result<Ticks> PsClient::await_parameters(Ticket ticket, ParameterSink& sink) {
  const auto wait = impl_->waits_for([&] { return impl_->pulls_.is_over(ticket); });
  return impl_->pulls_.await(ticket, sink);
}

Result<std::optional<Ticks>> PsClient::await_ahead(std::uint32_t thread, Ticket ticket, ParameterSink& sink) {
  const auto unneeded = [&] { return impl_->mailboxes_.finished(thread); };
  const auto wait = impl_->waits_for([&] { return impl_->pulls_.is_over(ticket) || unneeded(); });
  return impl_->pulls_.await_unless(unneeded, ticket, sink);
}

std::optional<Ticks> PsClient::parameters_installed(Ticket ticket) { return impl_->pulls_.answered(ticket); }

Result<wire::Evaluate> PsClient::next_evaluation() { return impl_->evaluations_.take(); }

Status PsClient::fetch_exact(Version version, std::span<float> flat) {
  const Ticket ticket = impl_->ask(impl_->pulls_.request_exact(version, impl_->options_.clock()));
  PACELINE_ASSIGN_OR_RETURN(const Snapshot snapshot, impl_->pulls_.collect(ticket));
  for (const auto& slice : snapshot) slice->copy_to(flat);
  return Status::ok();
}

void PsClient::report_evaluation(wire::EvaluationReport report) {
  impl_->report_evaluation(std::move(report));
}

Status PsClient::finish(wire::NodeReport report) {
  impl_->finish(std::move(report));
  return impl_->state_.await_end();
}

void PsClient::leave(const Status& why, std::optional<NodeId> gone) {
  impl_->leave(why, Lost::kNothing, gone);
}
void PsClient::close(Status why) { impl_->close(std::move(why)); }
Status PsClient::closed() const { return impl_->state_.closed(); }
bool PsClient::lack_parameters() const { return impl_->lack_parameters_; }
Lost PsClient::lost() const { return impl_->state_.lost(); }
std::optional<Status> PsClient::run_over() const { return impl_->state_.run_over(); }

}  // namespace paceline
