// Counted, written and read.
#include "common/report/staleness.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/assert.h"
#include "common/files/atomic_file.h"
#include "common/report/csv.h"
#include "common/timing/histogram.h"

namespace paceline {
namespace {

// Of a file's cells, so that a row's product has room; and of that over all rows, so that the sums of
// thousands of files have it.
constexpr std::int64_t kCellMax = std::int64_t{1} << 31;
constexpr std::int64_t kSumMax = std::int64_t{1} << 50;
constexpr const char* kStalenessHeader = "node,thread,unit,staleness,count";
constexpr const char* kStalenessFile = "staleness.csv";
constexpr const char* kClocks = "clocks";
constexpr const char* kGradients = "gradients";

std::string rows_of(WorkerId worker, const char* unit, const StalenessCounts& counts) {
  std::string rows;
  for (const auto& [bucket, count] : counts.histogram) {
    rows += std::to_string(worker.node.value) + "," + std::to_string(worker.thread) + "," + unit + "," +
            std::to_string(histogram_middle_ns(bucket)) + "," + std::to_string(count) + "\n";
  }
  return rows;
}

Result<std::int64_t> count_at(const csv::Table& table, std::size_t row, std::size_t column,
                              std::int64_t least, std::int64_t most) {
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t value, table.integer(row, column));
  if (value < least || value > most) {
    return table.error(row, column, std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

}  // namespace

void StalenessCounts::add(std::int64_t value, std::int64_t times) {
  PACELINE_ASSERT(value >= 0, "parameters newer than the gradient that was computed with them");
  count += times;
  sum += value * times;
  max = std::max(max, value);
  const std::uint16_t bucket = histogram_bucket(value);
  const auto at = std::lower_bound(histogram.begin(), histogram.end(), std::pair(bucket, std::int64_t{0}));
  if (at != histogram.end() && at->first == bucket) {
    at->second += times;
  } else {
    histogram.insert(at, {bucket, times});
  }
}

void merge(StalenessCounts& into, const StalenessCounts& from) {
  const StalenessCounts before = into;
  for (const auto& [bucket, count] : from.histogram) into.add(histogram_middle_ns(bucket), count);
  // Of the numbers themselves, not of their buckets.
  into.sum = before.sum + from.sum;
  into.max = std::max(before.max, from.max);
}

StalenessRecord::StalenessRecord(Cluster cluster) : cluster_(cluster) {
  workers_.reserve(cluster.workers());
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    workers_.push_back({cluster.worker_at(Rank(r)), {}, {}});
  }
}

void StalenessRecord::add(const sync::Apply& apply) {
  const auto gradients = static_cast<std::int64_t>(apply.contributors.size());
  std::int64_t revision = apply.revision_after.value - gradients;
  for (const sync::Contributor& c : apply.contributors) {
    WorkerStaleness& worker = workers_[cluster_.rank_of(c.worker).value];
    if (c.computed_version != kNoVersion) {  // else its worker was lost before it could say so
      worker.clocks.add(c.clock.value - c.computed_version.value);
      worker.gradients.add(revision - c.computed_revision.value);
    }
    if (apply.combine == CombineMode::kEach) ++revision;
  }
}

Status write_staleness(const std::filesystem::path& run_dir, std::span<const WorkerStaleness> workers) {
  std::string text = std::string(kStalenessHeader) + "\n";
  for (const auto& [worker, clocks, gradients] : workers) {
    text += rows_of(worker, kClocks, clocks) + rows_of(worker, kGradients, gradients);
  }
  return write_file_atomically(run_dir / kStalenessFile, text);
}

Result<std::vector<WorkerStaleness>> read_staleness(const std::filesystem::path& run_dir) {
  constexpr std::int64_t kIdMax = 0xFFFFFFFF;
  PACELINE_ASSIGN_OR_RETURN(const csv::Table table,
                            csv::Table::read(run_dir / kStalenessFile, kStalenessHeader));
  std::map<WorkerId, WorkerStaleness> workers;
  std::int64_t sum = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t node, count_at(table, row, 0, 0, kIdMax));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t thread, count_at(table, row, 1, 0, kIdMax));
    const std::string_view unit = table.cell(row, 2);
    if (unit != kClocks && unit != kGradients) return table.error(row, 2, "clocks or gradients");
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t staleness, count_at(table, row, 3, 0, kCellMax));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, count_at(table, row, 4, 1, kCellMax));
    const WorkerId id(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(thread));
    WorkerStaleness& worker = workers.try_emplace(id, WorkerStaleness{id, {}, {}}).first->second;
    StalenessCounts& counts = unit == kClocks ? worker.clocks : worker.gradients;
    const std::int64_t product = staleness * count;
    if (product > kSumMax - sum || count > kSumMax - sum) {
      return table.error(row, 4, "staleness times count up to " + std::to_string(kSumMax) + " over all rows");
    }
    sum += std::max(product, count);
    counts.add(staleness, count);
  }
  std::vector<WorkerStaleness> read;
  for (auto& [id, worker] : workers) read.push_back(std::move(worker));
  return read;
}

}  // namespace paceline
