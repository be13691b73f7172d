// RunFiles: what the end of a run leaves in its folder: its results, and before them its trace (run.trace): the
// authority's part, and the whole one made of all parts that lie there, when the nodes have reported and so have
// written theirs. A run that fails does not wait for them; `paceline trace` makes its trace.json again.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <functional>
#include <utility>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/status.h"
#include "server/authority/run_core.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"
#include "server/loop/background.h"

namespace paceline::server {

class RunFiles {
 public:
  // `filed` is called when the results are written, never from within a call of this. All outlive this, and this all
  // that `background` still calls.
  RunFiles(const RunConfig& config, RunCore& core, const RunOutcome& state, RunRecord& record,
           Background& background, const Log& log, std::function<void(const Status& written)> filed);
  RunFiles(const RunFiles&) = delete;

  // The trace, where there is one, and after it the results.
  void write();
  // The results, as the state is by then; once more where it becomes another one meanwhile.
  void write_results();

  // Of a file without which the run is none: whether it counts as written, but could not be written here.
  Background::Here needed_here();
  // OK: none; said once.
  Status take_missing() { return std::exchange(missing_, Status::ok()); }

 private:
  void write_trace(trace::DecisionLog& decisions);

  const RunConfig& config_;
  RunCore& core_;
  const RunOutcome& state_;
  RunRecord& record_;
  Background& background_;
  const Log& log_;
  const std::function<void(const Status& written)> filed_;
  RunOutcome::Kind filed_as_ = RunOutcome::Kind::kOk;
  Status missing_;
};

}  // namespace paceline::server
