// The directory of a sweep, and what in it is finished. It holds
//
//     sweep.yaml   the grid, and a number over all its configurations: what this directory is the sweep of
//     NAME/        a point's run directory (Grid::folder()), with simulate.log, what its process said
//     sweep.csv    the table (table.h)
//     sweep.dat    the same for plots (table.h)
//     .lock        held while a sweep goes on
//
// A point is finished when its summary.json is there, which is written last, and its config.yaml is the one
// that the grid gives it. Anything else, such as a point that was cut off half-way, is run again.
#pragma once

#include <filesystem>
#include <string>

#include "common/status.h"
#include "sweep/points.h"

namespace paceline::sweep {

class Directory {
 public:
  // Makes the directory, or goes on with one of the same sweep. Errors: kFailedPrecondition it is another
  // sweep's, naming where sweep.yaml differs, or something else that is not empty, or a sweep is going on in
  // it; those of common/files/atomic_file.h.
  static Result<Directory> open(const std::filesystem::path& out, const Points& points);
  Directory(Directory&& other) noexcept;
  Directory& operator=(Directory&&) = delete;
  ~Directory();

  const std::filesystem::path& path() const { return out_; }
  std::filesystem::path run(const Points& points, std::size_t point) const;
  bool is_finished(const Points& points, std::size_t point) const;
  // Makes the point's folder with the config.yaml to simulate, and nothing that says that it is finished.
  // Errors: kUnavailable; those of common/files/atomic_file.h.
  [[nodiscard]] Status begin(const Points& points, std::size_t point) const;

 private:
  explicit Directory(std::filesystem::path out) : out_(std::move(out)) {}
  Status lock();

  std::filesystem::path out_;
  int lock_ = -1;
};

}  // namespace paceline::sweep
