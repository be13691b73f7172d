// progress.csv: how a run went by time: what had been moved, and how far each worker was ahead of the
// slowest, at up to kRowsMax moments of training.
//
//   seconds,bytes_pushed,bytes_pulled,bytes_shared,gaps,bytes_reduced
//   0.1,4096,8192,0,0 1 0 -,0         of each worker in order, at most 64 of them; "-": it took no part
//
// A moment is noted each 0.1 s; whenever kRowsMax are there every other moment goes, and from then on one is
// noted half as often: so the rows are evenly apart, however long a run is. The daemons' authority and the
// simulator's keep this record alike. The bytes of other shards than the authority's, and those that nodes have
// reduced, are those of their last heartbeats. An older version's file has no bytes_reduced. Of a resumed run the rows
// are those of its last generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/traffic.h"

namespace paceline {

struct ProgressRow {
  double seconds = 0.0;  // since the first grant
  Traffic moved;         // so far
  std::vector<std::optional<std::int64_t>> gaps;
};

// Thread: one at a time. Memory: kRowsMax rows.
class ProgressRecord {
 public:
  static constexpr std::size_t kRowsMax = 512;
  static constexpr std::size_t kWorkersMax = 64;
  static constexpr double kEvery = 0.1;  // s

  explicit ProgressRecord(Cluster cluster);

  // Whether a moment is to be noted at `seconds`, which do not go back.
  bool due(double seconds) const { return seconds >= next_; }
  // Notes it. gap_of: how far a worker is ahead of the slowest; nothing where it takes no part.
  void note(double seconds, const Traffic& moved,
            const std::function<std::optional<std::int64_t>(WorkerId)>& gap_of);

  const std::vector<ProgressRow>& rows() const { return rows_; }

 private:
  // Which of the moments that are every_ apart it belongs to.
  std::int64_t place_of(double seconds) const;

  Cluster cluster_;
  double every_ = kEvery;
  double next_ = 0.0;
  std::vector<ProgressRow> rows_;
};

// <run_dir>/progress.csv, atomically. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_progress(const std::filesystem::path& run_dir, std::span<const ProgressRow> rows);

// Reads it back. Errors: kNotFound no such file; kDataLoss naming file, line, got and expected.
Result<std::vector<ProgressRow>> read_progress(const std::filesystem::path& run_dir);

}  // namespace paceline
