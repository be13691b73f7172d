// curve.csv, written and read.
#include "common/report/curve.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/report/csv.h"

namespace paceline {
namespace {

constexpr const char* kCurveHeader =
    "seconds,version,threshold,lpr,train_loss,train_accuracy,test_accuracy,test_loss,iterations,learning_"
    "rate";
constexpr std::size_t kCurveRequired = 3;  // seconds, version, threshold
constexpr const char* kCurveFile = "curve.csv";
constexpr std::size_t kCurveBytesMax = std::size_t{1} << 30;

std::string cell(const std::optional<double>& number) { return number ? csv::text_of(*number) : ""; }

std::string line(const CurveRow& row) {
  return csv::text_of(row.seconds) + "," + to_string(row.version) + "," + to_string(row.threshold) + "," +
         cell(row.lpr) + "," + cell(row.train_loss) + "," + cell(row.train_accuracy) + "," +
         cell(row.test_accuracy) + "," + cell(row.test_loss) + "," +
         (row.iterations ? std::to_string(*row.iterations) : "") + "," + cell(row.learning_rate) + "\n";
}

Result<std::optional<double>> optional_number(const csv::Table& table, std::size_t row, std::size_t column) {
  if (table.cell(row, column).empty()) return std::optional<double>();
  PACELINE_ASSIGN_OR_RETURN(const double number, table.number(row, column));
  return std::optional<double>(number);
}

Result<Threshold> threshold_at(const csv::Table& table, std::size_t row, std::size_t column) {
  if (table.cell(row, column) == "inf") return Threshold::infinite();
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t s, table.integer(row, column));
  return Threshold(s);
}

Result<std::vector<CurveRow>> rows_of(const csv::Table& table) {
  std::vector<CurveRow> rows(table.rows());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(rows[i].seconds, table.number(i, 0));
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t version, table.integer(i, 1));
    rows[i].version = Version(version);
    PACELINE_ASSIGN_OR_RETURN(rows[i].threshold, threshold_at(table, i, 2));
    PACELINE_ASSIGN_OR_RETURN(rows[i].lpr, optional_number(table, i, 3));
    PACELINE_ASSIGN_OR_RETURN(rows[i].train_loss, optional_number(table, i, 4));
    PACELINE_ASSIGN_OR_RETURN(rows[i].train_accuracy, optional_number(table, i, 5));
    PACELINE_ASSIGN_OR_RETURN(rows[i].test_accuracy, optional_number(table, i, 6));
    PACELINE_ASSIGN_OR_RETURN(rows[i].test_loss, optional_number(table, i, 7));
    PACELINE_ASSIGN_OR_RETURN(rows[i].learning_rate, optional_number(table, i, 9));
    if (table.cell(i, 8).empty()) continue;
    PACELINE_ASSIGN_OR_RETURN(rows[i].iterations, table.integer(i, 8));
  }
  return rows;
}

}  // namespace

Result<CurveWriter> CurveWriter::open(const std::filesystem::path& run_dir) {
  CurveWriter writer;
  writer.path_ = run_dir / kCurveFile;
  writer.file_.open(writer.path_, std::ios::trunc);
  writer.file_ << kCurveHeader << '\n' << std::flush;
  if (!writer.file_)
    return unavailable("cannot write " + writer.path_.string() + ": " + std::strerror(errno));
  return writer;
}

Result<CurveWriter> CurveWriter::resume(const std::filesystem::path& run_dir, Version version) {
  CurveWriter writer;
  writer.path_ = run_dir / kCurveFile;
  Result<std::string> text = read_file(writer.path_, kCurveBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return open(run_dir);
  if (text.status().code() == StatusCode::kResourceExhausted) return data_loss(text.status().message());
  PACELINE_RETURN_IF_ERROR(text.status());
  // A line without an end is one that a crash has cut.
  if (!text->empty() && text->back() != '\n') {
    text->resize(text->find_last_of('\n') + 1);
    PACELINE_RETURN_IF_ERROR(write_file_atomically(writer.path_, *text));
  }
  if (text->empty()) return open(run_dir);
  PACELINE_ASSIGN_OR_RETURN(std::vector<CurveRow> rows, read_curve(run_dir));
  std::erase_if(rows, [version](const CurveRow& row) { return row.version > version; });
  PACELINE_RETURN_IF_ERROR(write_curve(run_dir, rows));
  writer.file_.open(writer.path_, std::ios::app);
  if (!writer.file_) {
    return unavailable("cannot write " + writer.path_.string() + ": " + std::strerror(errno));
  }
  return writer;
}

Status CurveWriter::append(const CurveRow& row) {
  file_ << line(row) << std::flush;
  if (!file_) return unavailable("cannot write " + path_.string() + ": " + std::strerror(errno));
  return Status::ok();
}

Status write_curve(const std::filesystem::path& run_dir, std::span<const CurveRow> rows) {
  std::string text = std::string(kCurveHeader) + "\n";
  for (const CurveRow& row : rows) text += line(row);
  return write_file_atomically(run_dir / kCurveFile, text);
}

Result<std::vector<CurveRow>> read_curve(const std::filesystem::path& run_dir) {
  PACELINE_ASSIGN_OR_RETURN(const csv::Table table, csv::Table::read(run_dir / kCurveFile, kCurveHeader,
                                                                     csv::LastLine::kWhole, kCurveRequired));
  return rows_of(table);
}

Result<CurveSoFar> read_curve_so_far(const std::filesystem::path& run_dir) {
  const std::filesystem::path path = run_dir / kCurveFile;
  PACELINE_ASSIGN_OR_RETURN(const csv::Table table,
                            csv::Table::read(path, kCurveHeader, csv::LastLine::kMayBeCut, kCurveRequired));
  PACELINE_ASSIGN_OR_RETURN(std::vector<CurveRow> rows, rows_of(table));
  std::vector<std::string> lacking = table.lacking();
  std::erase(lacking, "learning_rate");
  return CurveSoFar{std::move(rows), table.last_line_cut(), std::move(lacking)};
}

}  // namespace paceline
