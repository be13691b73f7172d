// The little of CSV that the run directory's files need: numbers and plain words between commas, one header
// line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace paceline::csv {

// The shortest text that reads back as the same double; "inf", "-inf", "nan".
std::string text_of(double number);
// ns as seconds with nine decimals: exact, so that it reads back as the same integer.
std::string seconds_of(std::int64_t ns);

// What a last line without an end is: kMayBeCut in a file that is written line by line, by a program that may
// be killed.
enum class LastLine { kWhole, kMayBeCut };

// A file's rows after its header line. Columns are found by their names, so that one of another version is
// read, too: others between them are left out, and one that the file does not have has empty cells. In memory
// it is the file and 4 bytes for each cell: a long run's curve has millions.
class Table {
 public:
  static constexpr std::size_t kAll = SIZE_MAX;

  // `columns` are the names by whose places cells are asked for, between commas; the first `required` of them
  // are in any such file. A last line that may be cut, and is, is left out. Errors: kNotFound; kDataLoss a
  // header without one of those, a row with another number of cells than the header, or a cut line (file:line
  // named).
  static Result<Table> read(const std::filesystem::path& path, std::string_view columns,
                            LastLine last = LastLine::kWhole, std::size_t required = kAll);

  bool last_line_cut() const { return last_line_cut_; }
  std::size_t rows() const { return (begins_.size() - 1) / width_; }
  // The columns that the file does not have.
  std::vector<std::string> lacking() const;
  bool has(std::size_t column) const { return places_[column] != kNowhere; }
  // Valid while the table stays where it is.
  std::string_view cell(std::size_t row, std::size_t column) const {
    if (!has(column)) return {};
    const std::size_t i = row * width_ + places_[column];
    return std::string_view(content_).substr(begins_[i], begins_[i + 1] - begins_[i] - 1);
  }

  // A cell as a number. Errors: kDataLoss naming file, line, column's name, what is there and what was
  // expected.
  Result<std::int64_t> integer(std::size_t row, std::size_t column) const;
  Result<double> number(std::size_t row, std::size_t column) const;
  // Seconds, as seconds_of() writes them, in ns.
  Result<std::int64_t> nanoseconds(std::size_t row, std::size_t column) const;
  // The error of a cell: "phases.csv:7: phase is 'X', expected <expected>".
  Status error(std::size_t row, std::size_t column, const std::string& expected) const;

 private:
  std::string file_;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  std::vector<std::string> columns_;
  std::vector<std::size_t> places_;  // of each in the file
  std::size_t width_ = 1;            // columns of the file
  std::string content_;
  bool last_line_cut_ = false;
  // Where each cell begins in content_, row by row, and where the last one's successor would: one separator
  // lies between.
  std::vector<std::uint32_t> begins_;
};

}  // namespace paceline::csv
