// FilesSoFar: what of its results a run that is killed leaves: they are written while it trains, after 1 s, 2 s, 4 s,
// 8 s, 16 s, and then every ten: what a short run has is soon there, too.
//
// Thread: one at a time (the server's loop).
#pragma once

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "server/authority/run_record.h"
#include "server/authority/worker_speeds.h"
#include "server/loop/background.h"

namespace paceline::server {

class FilesSoFar {
 public:
  // All outlive this, and this all that `background` still calls.
  FilesSoFar(const RunConfig& config, const RunRecord& record, const WorkerSpeeds& speeds,
             Background& background, const Log& log);
  FilesSoFar(const FilesSoFar&) = delete;

  // Training begins, or goes on.
  void begin(Ticks now);
  // Once a second or so.
  void write_if_due(Ticks now);

 private:
  const RunConfig& config_;
  const RunRecord& record_;
  const WorkerSpeeds& speeds_;
  Background& background_;
  const Log& log_;
  double from_ = 0.0;  // seconds of training at which this generation began
  double due_ = 0.0;
  bool is_writing_ = false;
  bool has_failed_ = false;  // the last time
};

}  // namespace paceline::server
