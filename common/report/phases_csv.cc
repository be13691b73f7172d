// phases.csv and phases_histogram.csv, written together and read back to the same totals.
#include "common/report/phases_csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "common/files/atomic_file.h"
#include "common/report/csv.h"
#include "common/timing/histogram.h"

namespace paceline {
namespace {

constexpr const char* kPhasesHeader =
    "node,thread,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds";
constexpr std::size_t kPhasesRequired = 5;  // up to total_seconds
constexpr const char* kHistogramHeader = "node,thread,phase,ns,count";
constexpr const char* kPhasesFile = "phases.csv";
constexpr const char* kHistogramFile = "phases_histogram.csv";
constexpr const char* kSoFarHeader = "node,thread,phase,total_seconds";
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

// Takes the seconds in that column of a row, to the worker's wall, too, which is the sum of its rows by the
// definition of unaccounted. The row's phase; null: it is unaccounted.
Result<PhaseStat*> take_total(const csv::Table& table, std::size_t row, std::size_t column, Reader& reader) {
  PACELINE_ASSIGN_OR_RETURN(WorkerPhases* const worker, reader.worker_at(table, row));
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t total_ns, table.nanoseconds(row, column));
  worker->totals.wall_ns += total_ns;
  if (table.cell(row, 2) == kUnaccounted) return nullptr;
  PACELINE_ASSIGN_OR_RETURN(const Phase phase, phase_at(table, row, 2));
  PhaseStat& stat = worker->totals[phase];
  stat.total_ns = total_ns;
  return &stat;
}

Status read_rows(const csv::Table& table, Reader& reader) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PACELINE_ASSIGN_OR_RETURN(PhaseStat* const stat, take_total(table, row, 4, reader));
    if (stat == nullptr) continue;
    PACELINE_ASSIGN_OR_RETURN(stat->count, table.integer(row, 3));
    if (table.has(9)) {
      PACELINE_ASSIGN_OR_RETURN(stat->hidden_ns, table.nanoseconds(row, 9));
    }
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

// A cell in ms, in ns; none: no such column, or no time of a run.
std::optional<std::int64_t> ms_at(const csv::Table& table, std::size_t row, std::size_t column) {
  constexpr double kNsMax = 9e18;
  if (!table.has(column)) return std::nullopt;
  const Result<double> value = table.number(row, column);
  if (!value.is_ok() || !(*value >= 0.0) || !(*value * 1e6 < kNsMax)) return std::nullopt;
  return std::llround(*value * 1e6);
}

// Half of the occurrences as long as the median, the others as the 95th percentile: a histogram that has
// both.
Status take_quantiles(const csv::Table& table, Reader& reader) {
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.cell(row, 2) == kUnaccounted) continue;
    PACELINE_ASSIGN_OR_RETURN(WorkerPhases* const worker, reader.worker_at(table, row));
    PACELINE_ASSIGN_OR_RETURN(const Phase phase, phase_at(table, row, 2));
    PhaseStat& stat = worker->totals[phase];
    if (stat.count <= 0) continue;
    const std::int64_t median_ns = ms_at(table, row, 6).value_or(stat.total_ns / stat.count);
    const std::uint16_t median = histogram_bucket(median_ns);
    const std::uint16_t high = std::max(median, histogram_bucket(ms_at(table, row, 7).value_or(median_ns)));
    const std::int64_t half = stat.count - stat.count / 2;
    if (high == median || half == stat.count) {
      stat.histogram = {{median, stat.count}};
    } else {
      stat.histogram = {{median, half}, {high, stat.count - half}};
    }
  }
  return Status::ok();
}

Result<csv::Table> read_phase_rows(const std::filesystem::path& run_dir) {
  return csv::Table::read(run_dir / kPhasesFile, kPhasesHeader, csv::LastLine::kWhole, kPhasesRequired);
}

Status check_all(const std::filesystem::path& file, const Reader& reader) {
  for (const auto& [worker, totals] : reader.workers) {
    if (Status status = check(totals); !status) {
      return data_loss(file.string() + ": worker " + to_string(worker) + ": " + status.message());
    }
  }
  return Status::ok();
}

// Of a run that has not ended.
Result<PhasesThere> read_so_far(const std::filesystem::path& run_dir) {
  const std::filesystem::path file = run_dir / kPhasesSoFarFile;
  PACELINE_ASSIGN_OR_RETURN(const csv::Table table, csv::Table::read(file, kSoFarHeader));
  Reader reader;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PACELINE_RETURN_IF_ERROR(take_total(table, row, 3, reader).status());
  }
  PACELINE_RETURN_IF_ERROR(check_all(file, reader));
  return PhasesThere{std::move(reader.workers),
                     {std::string("no ") + kPhasesFile +
                      ": what phases took is as the nodes' last heartbeats said, without counts, medians and "
                      "percentiles"},
                     true};
}

}  // namespace

Status write_phases_so_far(const std::filesystem::path& run_dir, std::span<const WorkerTimes> workers) {
  std::string rows = std::string(kSoFarHeader) + "\n";
  for (const auto& [worker, times] : workers) {
    std::int64_t rest_ns = times.wall;
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      rows += prefix(worker) + kPhaseNames[i] + "," + csv::seconds_of(times.phases[i]) + "\n";
      rest_ns -= times.phases[i];
    }
    rows += prefix(worker) + kUnaccounted + "," + csv::seconds_of(rest_ns) + "\n";
  }
  return write_file_atomically(run_dir / kPhasesSoFarFile, rows);
}

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
  PACELINE_RETURN_IF_ERROR(write_file_atomically(run_dir / kPhasesFile, rows));
  std::error_code still_there;  // which harms nobody: phases.csv is read first
  std::filesystem::remove(run_dir / kPhasesSoFarFile, still_there);
  return Status::ok();
}

Result<std::vector<WorkerPhases>> read_phases(const std::filesystem::path& run_dir) {
  PACELINE_ASSIGN_OR_RETURN(const csv::Table rows, read_phase_rows(run_dir));
  PACELINE_ASSIGN_OR_RETURN(const csv::Table histogram,
                            csv::Table::read(run_dir / kHistogramFile, kHistogramHeader));
  Reader reader;
  PACELINE_RETURN_IF_ERROR(read_rows(rows, reader));
  PACELINE_RETURN_IF_ERROR(read_histogram(histogram, reader));
  PACELINE_RETURN_IF_ERROR(check_all(run_dir / kPhasesFile, reader));
  return std::move(reader.workers);
}

Result<PhasesThere> read_phases_there(const std::filesystem::path& run_dir) {
  const Result<csv::Table> whole = read_phase_rows(run_dir);
  if (whole.status().code() == StatusCode::kNotFound) {
    Result<PhasesThere> so_far = read_so_far(run_dir);
    return so_far.status().code() == StatusCode::kNotFound ? whole.status() : std::move(so_far);
  }
  PACELINE_RETURN_IF_ERROR(whole.status());
  const csv::Table& rows = *whole;
  PhasesThere there;
  for (const std::string& column : rows.lacking()) {
    there.lacking.push_back(std::string(kPhasesFile) + " is of an older version: no column " + column);
  }
  Reader reader;
  PACELINE_RETURN_IF_ERROR(read_rows(rows, reader));
  const Result<csv::Table> histogram = csv::Table::read(run_dir / kHistogramFile, kHistogramHeader);
  if (histogram.status().code() == StatusCode::kNotFound) {
    PACELINE_RETURN_IF_ERROR(take_quantiles(rows, reader));
    there.lacking.push_back(std::string("no ") + kHistogramFile +
                            ": it is of an older version; medians and 95th " +
                            "percentiles are taken from those of each worker");
  } else {
    PACELINE_RETURN_IF_ERROR(histogram.status());
    PACELINE_RETURN_IF_ERROR(read_histogram(*histogram, reader));
  }
  PACELINE_RETURN_IF_ERROR(check_all(run_dir / kPhasesFile, reader));
  there.workers = std::move(reader.workers);
  return there;
}

}  // namespace paceline
