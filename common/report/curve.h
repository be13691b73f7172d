// curve.csv: how learning went, one row for each evaluation and each LPR window, in the order in which they
// became known: an evaluation's row has the seconds and the threshold of when its version was reached, so it
// may stand after rows of later seconds.
//
//   seconds,version,threshold,lpr,train_loss,train_accuracy,test_accuracy,test_loss,iterations,learning_rate
//   12.5,400,3,,1.204,0.57,0.561,1.31,6412,0.1    an evaluation
//   14.75,460,4,6.2,1.1,0.605,,,7377,0.01         a window: LPR 6.2 % raised the threshold to 4
//
// How training went is of the window's iterations in a window's row, and of those reported since the version
// of the evaluation before, or since the run was resumed, in an evaluation's. A cell is empty where the row
// has no such number; infinity is inf.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace paceline {

struct CurveRow {
  double seconds = 0.0;  // since the first grant
  Version version;
  Threshold threshold;                        // in force from here on
  std::optional<double> lpr = {};             // per cent
  std::optional<double> train_loss = {};      // mean over the samples
  std::optional<double> train_accuracy = {};  // 0..1
  std::optional<double> test_accuracy = {};   // 0..1
  std::optional<double> test_loss = {};       // mean over the samples of the test set
  // In the global parameters by then, of all workers, as summary.json counts them: gradients, and of local steps the
  // mini-batches; in files of older versions it is missing. A version may have more or fewer: each clock of the
  // slowest worker is one.
  std::optional<std::int64_t> iterations = {};
  // Of the step that led to this version (shown_rate() in common/params/rates.h); of version 0 that of the first.
  std::optional<double> learning_rate = {};
};

// Writes <run_dir>/curve.csv row by row while the run goes on, each on disk for whoever looks before append()
// returns. Thread: one at a time.
class CurveWriter {
 public:
  // Begins the file anew with its header line. Errors: kUnavailable, naming path and reason.
  static Result<CurveWriter> open(const std::filesystem::path& run_dir);
  // Goes on with the file of a run that is resumed from `version`: rows of later versions are taken out,
  // since those will come again, and what an interrupted write has left of a last one. No file: begins one.
  // Errors: those of read_curve() (kDataLoss: it is no curve, or far too large) and write_curve();
  // kUnavailable.
  static Result<CurveWriter> resume(const std::filesystem::path& run_dir, Version version);
  // Errors: kUnavailable, naming the path (disk full).
  [[nodiscard]] Status append(const CurveRow& row);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

// <run_dir>/curve.csv, whole and atomically. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_curve(const std::filesystem::path& run_dir, std::span<const CurveRow> rows);

// Columns by their names: those of an older version that it lacks are empty, others are left out. Errors:
// kNotFound no such file; kDataLoss naming file, line, got and expected.
Result<std::vector<CurveRow>> read_curve(const std::filesystem::path& run_dir);

// Of a run that may still go on, or was killed: a last line that is cut is left out. Errors: as above.
struct CurveSoFar {
  std::vector<CurveRow> rows;
  bool last_line_cut = false;
  std::vector<std::string> lacking = {};  // columns, but the learning rate's, of which nobody makes a figure
};
Result<CurveSoFar> read_curve_so_far(const std::filesystem::path& run_dir);

}  // namespace paceline
