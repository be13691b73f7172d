// TensorBoard's event files: the numbers of a run that TensorBoard draws, while it goes (run.tensorboard).
//
//   train/loss, train/accuracy,      the cells of a row of curve.csv; step: its version
//   test/loss, test/accuracy,
//   train/learning_rate, sync/lpr
//   sync/threshold                   the same, where it is finite
//   phases/COMPUTE_GRADS/node_0, …,  at the end: seconds of a worker in the phase, mean over
//   phases/unaccounted/node_0        those of the node that reported; step: the final version
//
// TensorBoard has three readers, and each has a rule of its own for points that a restart takes back:
// EventAccumulator removes all points from the step of a START marker on; the page without the fast loader
// does the same but ignores a folder's first marker; the page with it knows no markers and removes a tag's
// points where its step goes back. So that the three show the same:
//
//   - each session of a run (its first one, too) has a file of its own, and the names only grow;
//   - a file's first point stands after a START marker with the step of that point;
//   - the steps of a tag only grow, within a file and from file to file: what a session takes back is removed
//     from the files of those before it (cut_event_files()).
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

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/clock.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/status.h"

namespace paceline {

// Whether a file of that name in a run directory is one of these.
bool is_event_file(std::string_view name);

// A run in `run_dir` goes on from version `from`: removes from its event files what they say of later versions,
// what they say of its end, which was none, and what a crash has left of a record. A file that holds no whole
// record stays as it is. Errors: those of common/files/atomic_file.h; the other files have been cut.
[[nodiscard]] Status cut_event_files(const std::filesystem::path& run_dir, Version from);

// One event file. Thread: one at a time.
class EventFile {
 public:
  // Begins <run_dir>/events.out.tfevents.<second>.<session>, whose name comes after those of all event files
  // there. `second_zero`: seconds since 1970 at which the seconds of the curve begin; 0 where time is virtual.
  // `session`: the run's generation; `from`: the version that it goes on from, up to which the files of the
  // sessions before it have the curve's points. Errors: kUnavailable, naming path and reason.
  static Result<EventFile> begin(const std::filesystem::path& run_dir, double second_zero,
                                 std::uint64_t session = 1, Version from = kNoVersion);

  // On disk for whoever looks before it returns. A cell whose tag has a point of this version, or of a later
  // one, is left out: an evaluation may be reported late, and the last version evaluated twice. Errors:
  // kUnavailable, naming the path (disk full): then the file may end in a part of a record, and nothing more
  // can be written.
  [[nodiscard]] Status append(const CurveRow& row);
  // At the end: of those that reported. Errors: as above.
  [[nodiscard]] Status append(std::span<const WorkerPhases> workers, Version version, double seconds);

 private:
  struct Point {
    std::string tag;
    std::optional<double> value;
  };
  [[nodiscard]] Status append(double seconds, Version step, std::span<const Point> points);
  [[nodiscard]] Status write(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
  double second_zero_ = 0.0;
  Version from_ = kNoVersion;
  bool has_points_ = false;
  std::unordered_map<std::string, Version> newest_;  // by tag
};

}  // namespace paceline
