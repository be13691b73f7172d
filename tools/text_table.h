// A table for people: columns as wide as what is in them, for a terminal with or without colour, or as
// Markdown. Pure.
//
//   node 0
//     phase          mean ms  share
//     -----------------------------
//     BATCH            0.412  1.20 %
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

enum class TextStyle { kPlain, kColoured, kMarkdown };
enum class Align { kLeft, kRight };
// What a colour would say; the text says it, too.
enum class Tone { kPlain, kStrong, kGood, kBad, kFaint };

struct TextCell {
  std::string text = {};
  Tone tone = Tone::kPlain;
};

struct TextColumn {
  std::string heading;
  Align align = Align::kRight;
};

struct TextTable {
  std::string title = {};           // a line above; empty: none
  std::size_t indent = 0;           // blanks before each row; not in Markdown
  bool ruled = false;               // a line below the headings; Markdown always has one
  std::vector<TextColumn> columns;  // one without a heading and without any text is left out
  std::vector<std::vector<TextCell>> rows =
      {};  // each of as many cells as there are columns, or of one: a line
  std::optional<std::size_t> last_ruled = {};  // a line above that row, too; not in Markdown
};

// Of its widest line, in characters; not of the title and of lines of one cell.
std::size_t width_of(const TextTable& table);

// Lines, each ended. Width is counted in characters of UTF-8.
std::string rendered(const TextTable& table, TextStyle style);

// Lines of which some begin with two blanks: as they are, or as Markdown, where those are the items of a
// list.
std::string rendered_lines(const std::string& lines, TextStyle style);

}  // namespace paceline
