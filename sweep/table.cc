#include "sweep/table.h"

#include <cmath>

#include "common/report/csv.h"

namespace paceline::sweep {
namespace {

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string cell(double number) { return std::isnan(number) ? "" : csv::text_of(number); }

}  // namespace

std::string table(const Points& points, const Rows& rows) {
  std::string text = "point";
  for (const std::string& key : points.grid().swept_keys()) text += "," + key;
  text += ",status,seed";
  for (const char* name : kQuantities) text += std::string(",") + name;
  text += "\n";
  for (const auto& [point, row] : rows) {
    text += points.grid().folder(point);
    for (const std::string& value : row.settings) text += "," + cell(value);
    text += "," + row.status + "," + std::to_string(row.seed);
    for (const double value : row.values) text += "," + cell(value);
    text += "\n";
  }
  return text;
}

}  // namespace paceline::sweep
