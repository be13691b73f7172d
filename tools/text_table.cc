#include "tools/text_table.h"

#include <algorithm>
#include <sstream>

#include "common/assert.h"
#include "common/text/printable.h"

namespace paceline {
namespace {

constexpr std::size_t kGap = 2;  // blanks between columns

// Select Graphic Rendition (ECMA-48): what 16-colour terminals have, readable on light and on dark.
const char* code_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "\033[1m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kBad:
      return "\033[31m";
    case Tone::kFaint:
      return "\033[2m";
  }
  return "";
}

std::string toned(const TextCell& cell, TextStyle style) {
  if (style != TextStyle::kColoured || cell.tone == Tone::kPlain || cell.text.empty()) return cell.text;
  return code_of(cell.tone) + cell.text + "\033[0m";
}

// In a cell of Markdown a bar would begin the next one, and a line end the next row.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

using Cells = std::vector<TextCell>;

// One cell alone is a line of its own.
bool is_line(const TextTable& table, const Cells& row) { return row.size() == 1 && table.columns.size() > 1; }

// The columns that have anything, and how wide they are.
struct Shape {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};

Shape shape_of(const TextTable& table) {
  Shape shape;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::size_t width = characters(table.columns[i].heading);
    for (const Cells& row : table.rows) {
      if (is_line(table, row)) continue;
      PACELINE_ASSERT(row.size() == table.columns.size(),
                      "a row of " + std::to_string(row.size()) + " cells");
      width = std::max(width, characters(row[i].text));
    }
    if (width == 0) continue;
    shape.columns.push_back(i);
    shape.widths.push_back(width);
  }
  return shape;
}

Cells headings_of(const TextTable& table) {
  Cells headings;
  for (const TextColumn& column : table.columns) headings.push_back({column.heading, Tone::kStrong});
  return headings;
}

std::string aligned(const TextTable& table, const Shape& shape, const Cells& cells, TextStyle style) {
  std::string text(table.indent, ' ');
  for (std::size_t k = 0; k < shape.columns.size(); ++k) {
    const TextCell& cell = cells[shape.columns[k]];
    const std::string blanks(shape.widths[k] - characters(cell.text), ' ');
    const bool right = table.columns[shape.columns[k]].align == Align::kRight;
    text += (k == 0 ? "" : std::string(kGap, ' ')) +
            (right ? blanks + toned(cell, style) : toned(cell, style) + blanks);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::size_t width_of(const Shape& shape) {
  std::size_t width = shape.widths.empty() ? 0 : kGap * (shape.widths.size() - 1);
  for (const std::size_t of : shape.widths) width += of;
  return width;
}

std::string aligned_table(const TextTable& table, TextStyle style) {
  const Shape shape = shape_of(table);
  const std::size_t width = width_of(shape);
  const std::string rule = std::string(table.indent, ' ') + std::string(width, '-') + "\n";
  std::string text;
  if (!table.title.empty()) text += toned({table.title, Tone::kStrong}, style) + "\n";
  text += aligned(table, shape, headings_of(table), style);
  if (table.ruled) text += rule;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.last_ruled == i) text += rule;
    const Cells& row = table.rows[i];
    text += is_line(table, row) ? toned(row.front(), style) + "\n" : aligned(table, shape, row, style);
  }
  return text;
}

std::string markdown_row(const Shape& shape, const Cells& cells) {
  std::string text = "|";
  for (const std::size_t i : shape.columns) text += " " + escaped(cells[i].text) + " |";
  return text + "\n";
}

std::string markdown_table(const TextTable& table) {
  const Shape shape = shape_of(table);
  std::string text;
  if (!table.title.empty()) text += "**" + escaped(table.title) + "**\n\n";
  text += markdown_row(shape, headings_of(table)) + "|";
  for (const std::size_t i : shape.columns)
    text += table.columns[i].align == Align::kRight ? "---:|" : "---|";
  text += "\n";
  for (const Cells& row : table.rows) {
    text += is_line(table, row) ? "| " + escaped(row.front().text) + " |\n" : markdown_row(shape, row);
  }
  return text;
}

}  // namespace

std::size_t width_of(const TextTable& table) { return table.indent + width_of(shape_of(table)); }

std::string rendered(const TextTable& table, TextStyle style) {
  return style == TextStyle::kMarkdown ? markdown_table(table) : aligned_table(table, style);
}

std::string rendered_lines(const std::string& lines, TextStyle style) {
  if (style != TextStyle::kMarkdown) return lines;
  std::string text;
  std::istringstream all(lines);
  bool in_list = false;
  for (std::string line; std::getline(all, line);) {
    const bool item = line.starts_with("  ");
    if (item != in_list) text += "\n";
    text += item ? "- " + line.substr(2) + "\n" : line + "\n";
    in_list = item;
  }
  return text;
}

}  // namespace paceline
