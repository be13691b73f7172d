#include "worker/client/unacked_messages.h"

#include <utility>

namespace paceline {

void UnackedMessages::pushed(const GradientPart& part) {
  threads_.at(part.push.worker.thread).parts.push_back(part.kept());
}

void UnackedMessages::withdrawn(std::uint32_t thread, Clock clock) {
  std::erase_if(threads_.at(thread).parts,
                [&](const GradientPart& part) { return part.push.clock == clock; });
}

bool UnackedMessages::granted(std::uint32_t thread, Clock clock) {
  Thread& of = threads_.at(thread);
  if (of.finished || (of.granted && clock <= *of.granted)) return false;
  of.granted = clock;
  drop_below(of, granted_ahead_ ? Clock(clock.value - 1) : clock);
  initial_.reset();
  ready_ = false;
  at_start_.clear();
  return true;
}

bool UnackedMessages::finished(std::uint32_t thread) {
  Thread& of = threads_.at(thread);
  if (of.finished) return false;
  of.finished = true;
  of.parts.clear();
  of.reports.clear();
  return true;
}

void UnackedMessages::drop_below(Thread& thread, Clock clock) {
  std::erase_if(thread.parts, [&](const GradientPart& part) { return part.push.clock < clock; });
  std::erase_if(thread.reports, [&](const wire::StepReport& report) { return report.clock < clock; });
}

bool UnackedMessages::asked(const wire::Evaluate& request) {
  if (asked_ && asked_->version == request.version && asked_->final_model == request.final_model)
    return false;
  asked_ = request;
  evaluated_.reset();
  return true;
}

void UnackedMessages::forget_all() {
  for (Thread& thread : threads_) {
    thread.granted.reset();
    thread.finished = false;
  }
  asked_.reset();
}

std::int64_t UnackedMessages::gradients() const {
  std::int64_t count = 0;
  for (const Thread& thread : threads_) {
    std::optional<Clock> last;
    for (const GradientPart& part : thread.parts)
      count += std::exchange(last, part.push.clock) != part.push.clock;
  }
  return count;
}

Status UnackedMessages::retransmit_rest(ServerLink& link, std::int64_t frame_bytes) const {
  if (initial_ != nullptr) {
    PACELINE_RETURN_IF_ERROR(link.send_initial(initial_, initial_->data() + link.range.begin, frame_bytes));
  }
  if (link.shard != kAuthority) return Status::ok();
  const auto resend = [&](const auto& message) { return message ? link.send({*message, {}}) : Status::ok(); };
  if (ready_) PACELINE_RETURN_IF_ERROR(link.socket->send({wire::NodeReady{}, {}}));
  for (const wire::Body& body : at_start_) PACELINE_RETURN_IF_ERROR(link.send({body, {}}));
  for (const Thread& thread : threads_) {
    for (const wire::StepReport& report : thread.reports) PACELINE_RETURN_IF_ERROR(link.send({report, {}}));
  }
  PACELINE_RETURN_IF_ERROR(resend(evaluated_));
  if (final_state_ != nullptr) PACELINE_RETURN_IF_ERROR(link.send_state(final_state_, frame_bytes));
  return resend(done_);
}

}  // namespace paceline
