// phases.csv and phases_histogram.csv, written together and read back to the same totals.
#include "common/report/phases_csv.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/files/atomic_file.h"
#include "common/report/csv.h"
#include "common/timing/histogram.h"

namespace paceline {
namespace {

constexpr const char* kPhasesHeader =
    "node,thread,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds";
constexpr const char* kHistogramHeader = "node,thread,phase,ns,count";
constexpr const char* kPhasesFile = "phases.csv";
constexpr const char* kHistogramFile = "phases_histogram.csv";
constexpr const char* kUnaccounted = "unaccounted";

std::string ms(double ns) { return csv::text_of(ns / 1e6); }

std::string share(std::int64_t part_ns, std::int64_t wall_ns) {
  return csv::text_of(wall_ns == 0 ? 0.0 : static_cast<double>(part_ns) / static_cast<double>(wall_ns));
}

std::string prefix(WorkerId worker) {
  return std::to_string(worker.node.value) + "," + std::to_string(worker.thread) + ",";
}

std::string phase_row(const PhaseStat& stat, std::int64_t wall_ns) {
  const double mean =
      stat.count == 0 ? 0.0 : static_cast<double>(stat.total_ns) / static_cast<double>(stat.count);
  return std::to_string(stat.count) + "," + csv::seconds_of(stat.total_ns) + "," + ms(mean) + "," +
         ms(static_cast<double>(quantile_ns(stat, 0.5))) + "," +
         ms(static_cast<double>(quantile_ns(stat, 0.95))) + "," + share(stat.total_ns, wall_ns) + "," +
         csv::seconds_of(stat.hidden_ns) + "\n";
}

std::string unaccounted_row(const PhaseTotals& totals) {
  const std::int64_t ns = unaccounted_ns(totals);
  return std::string("0,") + csv::seconds_of(ns) + ",0,0,0," + share(ns, totals.wall_ns) + "," +
         csv::seconds_of(0) + "\n";
}

// The workers as they are read, in the order of their first row.
class Reader {
 public:
  Result<WorkerPhases*> worker_at(const csv::Table& table, std::size_t row) {
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t node, id_at(table, row, 0));
    PACELINE_ASSIGN_OR_RETURN(const std::uint32_t thread, id_at(table, row, 1));
    const WorkerId worker(node, thread);
    const auto [place, fresh] = index_.try_emplace(worker, workers.size());
    if (fresh) workers.push_back({worker, {}});
    return &workers[place->second];
  }

  std::vector<WorkerPhases> workers;

 private:
  static Result<std::uint32_t> id_at(const csv::Table& table, std::size_t row, std::size_t column) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t id, table.integer(row, column));
    if (id < 0 || id > 0xFFFFFFFF) return table.error(row, column, "a number of 32 bits");
    return static_cast<std::uint32_t>(id);
  }
  std::map<WorkerId, std::size_t> index_;
};

Result<Phase> phase_at(const csv::Table& table, std::size_t row, std::size_t column) {
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    if (table.cell(row, column) == kPhaseNames[i]) return static_cast<Phase>(i);
  }
  return table.error(row, column, "one of the nine phases");
}

Status read_rows(const csv::Table& table, Reader& reader) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PACELINE_ASSIGN_OR_RETURN(WorkerPhases* const worker, reader.worker_at(table, row));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t total_ns, table.nanoseconds(row, 4));
    // The wall is the sum of the rows, by the definition of unaccounted.
    worker->totals.wall_ns += total_ns;
    if (table.cell(row, 2) == kUnaccounted) continue;
    PACELINE_ASSIGN_OR_RETURN(const Phase phase, phase_at(table, row, 2));
    PhaseStat& stat = worker->totals[phase];
    stat.total_ns = total_ns;
    PACELINE_ASSIGN_OR_RETURN(stat.count, table.integer(row, 3));
    PACELINE_ASSIGN_OR_RETURN(stat.hidden_ns, table.nanoseconds(row, 9));
  }
  return Status::ok();
}

Status read_histogram(const csv::Table& table, Reader& reader) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PACELINE_ASSIGN_OR_RETURN(WorkerPhases* const worker, reader.worker_at(table, row));
    PACELINE_ASSIGN_OR_RETURN(const Phase phase, phase_at(table, row, 2));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t ns, table.integer(row, 3));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t count, table.integer(row, 4));
    worker->totals[phase].histogram.emplace_back(histogram_bucket(ns), count);
  }
  return Status::ok();
}

}  // namespace

Status write_phases(const std::filesystem::path& run_dir, std::span<const WorkerPhases> workers) {
  std::string rows = std::string(kPhasesHeader) + "\n";
  std::string histogram = std::string(kHistogramHeader) + "\n";
  for (const auto& [worker, totals] : workers) {
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      const std::string begin = prefix(worker) + kPhaseNames[i] + ",";
      rows += begin + phase_row(totals.phases[i], totals.wall_ns);
      for (const auto& [bucket, count] : totals.phases[i].histogram) {
        histogram += begin + std::to_string(histogram_middle_ns(bucket)) + "," + std::to_string(count) + "\n";
      }
    }
    rows += prefix(worker) + kUnaccounted + "," + unaccounted_row(totals);
  }
  PACELINE_RETURN_IF_ERROR(write_file_atomically(run_dir / kHistogramFile, histogram));
  return write_file_atomically(run_dir / kPhasesFile, rows);
}

Result<std::vector<WorkerPhases>> read_phases(const std::filesystem::path& run_dir) {
  PACELINE_ASSIGN_OR_RETURN(const csv::Table rows, csv::Table::read(run_dir / kPhasesFile, kPhasesHeader));
  PACELINE_ASSIGN_OR_RETURN(const csv::Table histogram,
                            csv::Table::read(run_dir / kHistogramFile, kHistogramHeader));
  Reader reader;
  PACELINE_RETURN_IF_ERROR(read_rows(rows, reader));
  PACELINE_RETURN_IF_ERROR(read_histogram(histogram, reader));
  for (const auto& [worker, totals] : reader.workers) {
    if (Status status = check(totals); !status) {
      return data_loss((run_dir / kPhasesFile).string() + ": worker " + to_string(worker) + ": " +
                       status.message());
    }
  }
  return std::move(reader.workers);
}

}  // namespace paceline
