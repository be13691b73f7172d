// What the authority does with a model, in virtual time (training mode): it says what shards apply and with
// which learning rate, has versions evaluated, and is left with the final one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/metric.h"
#include "common/params/model_file.h"
#include "common/sync/actions.h"
#include "common/sync/engine.h"
#include "common/wire/messages.h"
#include "simulate/plan.h"
#include "simulate/run_record.h"
#include "simulate/training.h"

namespace paceline::simulate {

// Thread: one.
class AuthorityModel {
 public:
  // All outlive it.
  AuthorityModel(const Plan& plan, Training& training, const sync::Engine& engine, RunRecord& record);

  // A worker has reported this of a gradient that counts.
  void trained(const Metric& metric) { trained_ += metric; }

  // A decision, each once, as the shards are told it. `row`: of the curve, where the version that it leads to
  // is to be evaluated. None is skipped: an evaluation takes no time.
  struct Announced {
    wire::ApplyDecision decision;
    std::optional<std::size_t> row;
  };
  Announced announce(const sync::Apply& decision, Ticks now);

  // Every shard has applied it. Returns whether the target accuracy is reached.
  bool evaluate(Version version, std::size_t row);

  // The run is over: what the shards hold, evaluated but where it failed.
  ModelFile finish();

 private:
  void note_trained(CurveRow& row);
  void note_evaluated(CurveRow& row) const;

  const Plan& plan_;
  Training& training_;
  const sync::Engine& engine_;
  RunRecord& record_;
  std::int64_t sequence_ = 0;                            // of the next decision
  Version decided_;                                      // what the last one led to
  std::optional<std::pair<Version, Metric>> evaluated_;  // last
  Metric trained_;                                       // of all reports
  Metric trained_evaluated_;                             // as of the last version that is evaluated
};

}  // namespace paceline::simulate
