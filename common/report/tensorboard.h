// TensorBoard's event files: the numbers of a run that TensorBoard draws, while it goes (run.tensorboard).
//
//   train/loss, train/accuracy,      the cells of a row of curve.csv; step: its version
//   test/accuracy, sync/lpr
//   sync/threshold                   the same, where it is finite and the version newer than all before
//   phases/COMPUTE_GRADS/node_0, …,  at the end: seconds of a worker in the phase, mean over
//   phases/unaccounted/node_0        those of the node that reported; step: the final version
//
// A file is a sequence of records, each a protobuf message Event (proto/tensorboard.proto) in the framing of
// TFRecord (tensorflow/core/lib/io/record_writer.h), numbers little-endian:
//
//   uint64 length         of the Event, in bytes
//   uint32 masked CRC32C  of those 8 bytes
//   the Event
//   uint32 masked CRC32C  of it
//
// masked: the checksum turned right by 15 bits, plus 0xa282ead8. Values are float32. TensorBoard looks for
// files whose names contain "tfevents", reads those of a folder in the order of their names, and takes a
// record that is cut for one that is still being written.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/status.h"

namespace paceline {

// Whether a file of that name in a run directory is one of these.
bool is_event_file(std::string_view name);

// One event file. Thread: one at a time.
class EventFile {
 public:
  // Begins <run_dir>/events.out.tfevents.<second_zero>.<version>. `second_zero`: seconds since 1970 at which
  // the seconds of the curve begin; 0 where time is virtual. `resumed_from`: later versions of earlier files
  // no longer count. Errors: kUnavailable, naming path and reason.
  static Result<EventFile> begin(const std::filesystem::path& run_dir, double second_zero,
                                 std::optional<Version> resumed_from = {});

  // On disk for whoever looks before it returns. Errors: kUnavailable, naming the path (disk full): then the
  // file may end in a part of a record, and nothing more can be written.
  [[nodiscard]] Status append(const CurveRow& row);
  // At the end: of those that reported. Errors: as above.
  [[nodiscard]] Status append(std::span<const WorkerPhases> workers, Version version, double seconds);

 private:
  [[nodiscard]] Status write(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
  double second_zero_ = 0.0;
  Version threshold_until_ = kNoVersion;  // the newest version with a threshold
  Version train_until_ = kNoVersion;      // and with a training loss
};

}  // namespace paceline
