// RunRecordState: what a run's record goes on from when the run is resumed, and its bytes in a manifest
// (proto/run_record.proto). Of the curve there is only the file, which a resume cuts to the version it goes
// on from; what nodes and shards report at the end is of the last generation alone.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/loss_scale.h"
#include "common/report/batch_sizes.h"
#include "common/report/churn.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/status.h"

namespace paceline::server {

struct RunRecordState {
  std::vector<PolicyChange> switches;
  Churn churn;
  std::vector<WorkerStaleness> staleness;       // by rank
  std::optional<WorkerBatchSizes> batch_sizes;  // balanced batches alone
  std::vector<LossScale> loss_scales;           // by rank; fp16 alone, else empty
  // The newest; accuracies 0..1, LPR in per cent.
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  std::optional<double> test_accuracy;
  std::optional<double> lpr;
  // Before this one.
  std::int64_t checkpoints = 0;
  std::int64_t checkpoints_failed = 0;
};

// The same state gives the same bytes.
std::string to_bytes(const RunRecordState& state);

// Bytes may come from a damaged file: any are taken. Errors: kDataLoss, naming the field: no such message,
// histograms, batch sizes or loss scales that are not those of `cluster`'s workers, a node away that is
// none of its, negative counts.
Result<RunRecordState> run_record_from_bytes(std::string_view bytes, Cluster cluster);

}  // namespace paceline::server
