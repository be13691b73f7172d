// Noted, written and read.
#include "common/report/progress.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "common/files/atomic_file.h"
#include "common/report/csv.h"

namespace paceline {
namespace {

constexpr const char* kProgressFile = "progress.csv";
constexpr const char* kProgressHeader = "seconds,bytes_pushed,bytes_pulled,bytes_shared,gaps,bytes_reduced";
constexpr std::size_t kProgressRequired = 5;
constexpr std::string_view kNoPart = "-";

// "0 1 -"; nothing where a word is neither a number nor "-".
std::optional<std::vector<std::optional<std::int64_t>>> gaps_from(std::string_view cell) {
  std::vector<std::optional<std::int64_t>> gaps;
  while (!cell.empty()) {
    const std::string_view word = cell.substr(0, cell.find(' '));
    cell.remove_prefix(std::min(word.size() + 1, cell.size()));
    std::int64_t gap = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), gap);
    const bool is_number = error == std::errc() && end == word.data() + word.size() && gap >= 0;
    if (!is_number && word != kNoPart) return std::nullopt;
    gaps.push_back(is_number ? std::optional(gap) : std::nullopt);
  }
  return gaps;
}

}  // namespace

ProgressRecord::ProgressRecord(Cluster cluster) : cluster_(cluster) { rows_.reserve(kRowsMax); }

void ProgressRecord::note(double seconds, const Traffic& moved,
                          const std::function<std::optional<std::int64_t>(WorkerId)>& gap_of) {
  while (rows_.size() == kRowsMax) {
    std::erase_if(rows_, [this](const ProgressRow& row) { return place_of(row.seconds) % 2 == 1; });
    every_ *= 2;
  }
  ProgressRow row{seconds, moved, {}};
  const auto workers = static_cast<std::uint32_t>(std::min<std::size_t>(cluster_.workers(), kWorkersMax));
  for (std::uint32_t r = 0; r < workers; ++r) row.gaps.push_back(gap_of(cluster_.worker_at(Rank(r))));
  rows_.push_back(std::move(row));
  next_ = static_cast<double>(place_of(seconds) + 1) * every_;
}

std::int64_t ProgressRecord::place_of(double seconds) const {
  constexpr double kRounding = 1e-6;
  return static_cast<std::int64_t>(std::floor(seconds / every_ + kRounding));
}

Status write_progress(const std::filesystem::path& run_dir, std::span<const ProgressRow> rows) {
  std::string text = std::string(kProgressHeader) + "\n";
  for (const ProgressRow& row : rows) {
    text += csv::text_of(row.seconds) + "," + std::to_string(row.moved.pushed) + "," +
            std::to_string(row.moved.pulled) + "," + std::to_string(row.moved.shared) + ",";
    for (std::size_t i = 0; i < row.gaps.size(); ++i) {
      text += (i == 0 ? "" : " ") + (row.gaps[i] ? std::to_string(*row.gaps[i]) : std::string(kNoPart));
    }
    text += "," + std::to_string(row.moved.reduced) + "\n";
  }
  return write_file_atomically(run_dir / kProgressFile, text);
}

Result<std::vector<ProgressRow>> read_progress(const std::filesystem::path& run_dir) {
  PACELINE_ASSIGN_OR_RETURN(
      const csv::Table table,
      csv::Table::read(run_dir / kProgressFile, kProgressHeader, csv::LastLine::kWhole, kProgressRequired));
  std::vector<ProgressRow> rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    ProgressRow row;
    PACELINE_ASSIGN_OR_RETURN(row.seconds, table.number(i, 0));
    const bool forward = row.seconds >= (rows.empty() ? 0.0 : rows.back().seconds);  // false for NaN
    if (!forward || !std::isfinite(row.seconds)) {
      return table.error(i, 0, "seconds that do not go back");
    }
    PACELINE_ASSIGN_OR_RETURN(row.moved.pushed, table.integer(i, 1));
    PACELINE_ASSIGN_OR_RETURN(row.moved.pulled, table.integer(i, 2));
    PACELINE_ASSIGN_OR_RETURN(row.moved.shared, table.integer(i, 3));
    if (table.has(5)) {
      PACELINE_ASSIGN_OR_RETURN(row.moved.reduced, table.integer(i, 5));
    }
    auto gaps = gaps_from(table.cell(i, 4));
    if (!gaps || (!rows.empty() && gaps->size() != rows.front().gaps.size())) {
      return table.error(i, 4, "a number or - for each worker, as many as in the first row");
    }
    row.gaps = std::move(*gaps);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace paceline
