// RunEnd: the end of a run, whatever it is: who has reported, the final model, the last evaluation, the last state, and
// who is told how it went.
//
//   ending      the final model is retained, fetched, written and evaluated; nodes report
//   closing     shards report and go
//   filing      the results are written (run_files.h); nodes are told
//   over
//
// Every wait is for a peer, and is over when the peer's lease is; a node that lives but does not say what it is asked
// for is waited for some leases.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "common/sync/actions.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluations.h"
#include "server/authority/final_model.h"
#include "server/authority/node_parameters.h"
#include "server/authority/run_core.h"
#include "server/authority/run_files.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"
#include "server/authority/run_saves.h"
#include "server/authority/step_reports.h"
#include "server/authority/worker_speeds.h"
#include "server/loop/background.h"
#include "server/peers/peer.h"

namespace paceline::server {

class RunEnd {
 public:
  // How long a node that is alive may take, in leases, for its report, which it has at hand.
  static constexpr int kReportLeases = 10;
  // And for the last parameters, where nodes hold them: a report is a few numbers, these are the whole model.
  static constexpr int kParametersLeases = 60;

  // What has an end. All outlive this.
  struct Run {
    const RunConfig& config;
    RunCore& core;
    RunOutcome& state;
    RunMembers& members;
    RunRecord& record;
    Checkpoints& checkpoints;
    RunSaves& saves;
    Evaluations& evaluations;
    NodeParameters& parameters;
    const StepReports& reports;
    const WorkerSpeeds& speeds;
    RunOutbox& outbox;
    const Log& log;
  };
  // `network`: to which the final model is asked for; as `background` it outlives this, and this all that that calls.
  RunEnd(const Run& run, Outbox& network, Background& background);
  RunEnd(const RunEnd&) = delete;

  // Nobody trains any more.
  void begin(sync::EndReason why, Ticks now);
  // Something has happened that the end may have waited for.
  void advance(Ticks now);
  // Without a model, with status "failed": everybody is told why. It is over once that is in the files.
  void fail(const Status& reason, Ticks now);
  // What the run is for is not here, as take_missing() has said: it has failed, also where it was over.
  void fail_for_missing(const Status& why, Ticks now);
  // All servers go on from the newest checkpoint by themselves.
  void reconfigure(const std::string& why, Ticks now);

  // The nodes whose reports have not come in time; and what that is.
  std::vector<NodeId> silent(Ticks now) const;
  std::string too_late() const;
  // Time passes: the nodes' parameters may not come in time.
  void check(Ticks now);

  // It has failed, and other servers may go on with it.
  bool is_for_now() const;
  const FinalModel& model() const { return model_; }
  // A piece of it. Errors: those of FinalModel::add.
  [[nodiscard]] Status add(const wire::Parameters& piece, wire::Payload payload) {
    return model_.add(piece, std::move(payload));
  }
  // A replica's: a file that the run is for and that counts as written, by the word of the one that served,
  // could not be written here. OK: none; said once.
  Status take_missing() { return files_.take_missing(); }

 private:
  bool saves_last_state() const;
  bool saves_after_model() const;
  bool lacks_parameters() const;
  bool may_be_resumed_after(const Status& why) const;
  void log_how_to_resume() const;
  void request_model(Ticks now);
  bool model_is_written();
  void on_model_written(const Status& written, Ticks now);
  bool last_state_is_saved(Ticks now);
  bool reports_are_in() const;
  void end_nodes();
  void file();
  void on_filed(const Status& written);

  const Run run_;
  Outbox& network_;
  Background& background_;
  FinalModel model_;
  RunFiles files_;
  Ticks since_;
  bool saved_after_model_ = false;  // or tried to
};

}  // namespace paceline::server
