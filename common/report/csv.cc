// CSV without quoting: no cell of ours can hold a comma or a line end.
#include "common/report/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "common/files/atomic_file.h"
#include "common/text/printable.h"

namespace paceline::csv {
namespace {

constexpr std::size_t kCsvBytesMax = std::size_t{1} << 30;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// The whole text as a number, or nothing.
template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace

std::string text_of(double number) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  PACELINE_ASSERT(error == std::errc(), "no double is longer than 24 characters");
  return {text, end};
}

std::string seconds_of(std::int64_t ns) {
  char text[32];
  const std::int64_t rest = std::abs(ns % 1'000'000'000);
  std::snprintf(text, sizeof text, "%s%lld.%09lld", ns < 0 ? "-" : "",
                static_cast<long long>(std::abs(ns / 1'000'000'000)), static_cast<long long>(rest));
  return text;
}

Result<Table> Table::read(const std::filesystem::path& path, std::string_view columns, LastLine last,
                          std::size_t required) {
  Table table;
  PACELINE_ASSIGN_OR_RETURN(table.content_, read_file(path, kCsvBytesMax));
  table.file_ = path.string();
  table.columns_ = split(columns, ',');
  std::string& content = table.content_;
  const std::string first = content.substr(0, content.find('\n'));
  const std::vector<std::string> there = split(first, ',');
  table.width_ = there.size();
  for (const std::string& column : table.columns_) {
    const auto place = std::find(there.begin(), there.end(), column);
    const bool needed = table.places_.size() < required;
    if (place == there.end() && needed) {
      return data_loss(table.file_ + ":1: header is '" + quotable(first) + "', expected '" +
                       std::string(columns) + "'");
    }
    table.places_.push_back(place == there.end() ? kNowhere
                                                 : static_cast<std::size_t>(place - there.begin()));
  }
  // A text file ends with a line end; one that does not was cut.
  if (content.back() != '\n') {
    if (last == LastLine::kWhole) {
      const auto lines = 1 + std::count(content.begin(), content.end(), '\n');
      return data_loss(table.file_ + ":" + std::to_string(lines) + ": the last line is cut");
    }
    table.last_line_cut_ = true;
    content.resize(content.find_last_of('\n') + 1);  // of a header without an end, nothing
  }
  std::size_t at = first.size() + 1;
  for (std::size_t line = 2; at < content.size(); ++line, ++at) {
    const std::size_t before = table.begins_.size();
    table.begins_.push_back(static_cast<std::uint32_t>(at));
    for (; content[at] != '\n'; ++at) {
      if (content[at] == ',') table.begins_.push_back(static_cast<std::uint32_t>(at + 1));
    }
    const std::size_t cells = table.begins_.size() - before;
    if (cells != table.width_) {
      return data_loss(table.file_ + ":" + std::to_string(line) + ": " + std::to_string(cells) +
                       " cells, expected " + std::to_string(table.width_));
    }
  }
  table.begins_.push_back(static_cast<std::uint32_t>(at));
  return table;
}

std::vector<std::string> Table::lacking() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (!has(i)) names.push_back(columns_[i]);
  }
  return names;
}

Status Table::error(std::size_t row, std::size_t column, const std::string& expected) const {
  return data_loss(file_ + ":" + std::to_string(row + 2) + ": " + columns_[column] + " is '" +
                   quotable(cell(row, column)) + "', expected " + expected);
}

Result<std::int64_t> Table::integer(std::size_t row, std::size_t column) const {
  if (const auto value = parse<std::int64_t>(cell(row, column))) return *value;
  return error(row, column, "an integer");
}

Result<double> Table::number(std::size_t row, std::size_t column) const {
  if (const auto value = parse<double>(cell(row, column))) return *value;
  return error(row, column, "a number");
}

Result<std::int64_t> Table::nanoseconds(std::size_t row, std::size_t column) const {
  const std::string text(cell(row, column));
  const std::size_t point = text.find('.');
  if (point != std::string::npos && text.size() - point == 10) {
    if (const auto value = parse<std::int64_t>(text.substr(0, point) + text.substr(point + 1))) return *value;
  }
  return error(row, column, "seconds with nine decimals");
}

}  // namespace paceline::csv
