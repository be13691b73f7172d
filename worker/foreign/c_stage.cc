// include/paceline/paceline.h: a loop whose model is cut over nodes, one stage each (foreign_stage.h).
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "include/paceline/paceline.h"
#include "worker/foreign/c_calls.h"
#include "worker/foreign/c_worker.h"
#include "worker/foreign/foreign_stage.h"

using namespace paceline;

namespace {

Status pass_failed(const paceline_pass& pass, const char* which) {
  if (pass.why != nullptr) return internal_error(pass.why);
  return internal_error(std::string("the loop's ") + which + " pass failed");
}

Status on_stage(paceline_worker& w, const paceline_stage* stage) {
  if (w.started()) return failed_precondition("paceline_on_stage: the worker has started already");
  if (stage == nullptr || stage->ends == nullptr || stage->forward == nullptr || stage->backward == nullptr) {
    return invalid_argument("paceline_on_stage: got no stage, expected ends, forward and backward");
  }
  ForeignStage::Parts parts{
      {stage->ends, stage->ends + stage->stages}, stage->floats_in, stage->floats_out, {}, {}};
  parts.forward = [of = *stage](const StagePass& pass,
                                std::span<float> out) -> Result<ForeignStage::Forward> {
    paceline_pass c{};
    c.first = pass.first;
    c.samples = pass.batch.size();
    c.kept = pass.is_kept ? 1 : 0;
    c.in = pass.in.empty() ? nullptr : pass.in.data();
    c.out = out.empty() ? nullptr : out.data();
    if (of.forward(of.context, &c) != 0) return pass_failed(c, "forward");
    return ForeignStage::Forward{{c.metric.loss_sum, c.metric.correct, c.samples}, c.kept_bytes};
  };
  parts.backward = [of = *stage](const StagePass& pass, std::int64_t divisor,
                                 std::span<const float> out_difference, std::span<float> in_difference,
                                 std::span<float> gradient) {
    paceline_pass c{};
    c.first = pass.first;
    c.samples = pass.batch.size();
    c.divisor = divisor;
    c.kept = 1;
    c.out_gradient = out_difference.empty() ? nullptr : out_difference.data();
    c.in_gradient = in_difference.empty() ? nullptr : in_difference.data();
    c.gradient = gradient.data();
    if (of.backward(of.context, &c) != 0) return pass_failed(c, "backward");
    return Status::ok();
  };
  parts.while_waiting = [&w] { return w.while_waiting ? w.while_waiting() : Status::ok(); };
  PACELINE_ASSIGN_OR_RETURN(w.stage, ForeignStage::make(w.config, w.node, w.layout.size(), std::move(parts)));
  return Status::ok();
}

Status on_wait(paceline_worker& w, int (*callback)(void*), void* context) {
  if (w.started()) return failed_precondition("paceline_on_wait: the worker has started already");
  if (callback == nullptr) return invalid_argument("paceline_on_wait: got nothing to call");
  w.while_waiting = [callback, context] {
    return callback(context) == 0 ? Status::ok() : aborted("interrupted in its wait for another stage");
  };
  return Status::ok();
}

Status step_stages(paceline_worker& w, std::int64_t samples, paceline_metric* metric) {
  PACELINE_RETURN_IF_ERROR(w.check_under_way());
  if (w.stage == nullptr) return failed_precondition("paceline_step_stages: paceline_on_stage() comes first");
  if (metric == nullptr) return invalid_argument("paceline_step_stages: got no place for the metric");
  if (w.stepped) {
    return failed_precondition("paceline_step_stages: the round's mini-batch has gone through the stages");
  }
  const Result<Metric> done = w.stage->step(w.round.step, samples, w.round.parameters, w.round.gradient);
  if (!done.is_ok()) {
    // Other stages wait for this one.
    if (done.status().code() != StatusCode::kInvalidArgument) w.loop.give_up(done.status());
    return done.status();
  }
  w.stepped = true;
  *metric = {done->loss_sum, done->correct, done->samples};
  return Status::ok();
}

}  // namespace

paceline_code paceline_on_stage(paceline_worker* worker, const paceline_stage* stage) {
  return guarded([&] { return on_stage(*worker, stage); });
}

paceline_code paceline_on_wait(paceline_worker* worker, int (*callback)(void* context), void* context) {
  return guarded([&] { return on_wait(*worker, callback, context); });
}

paceline_code paceline_step_stages(paceline_worker* worker, std::int64_t samples, paceline_metric* metric) {
  return guarded([&] { return step_stages(*worker, samples, metric); });
}
