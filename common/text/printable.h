// Text from elsewhere (a peer, a file, a folder's name) as it may be shown on a terminal: it moves no cursor,
// sets no title, and is no longer than there is room for.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

// What a message quotes of a file at most: 5 kB of a damaged one tell nobody more than its begin.
inline constexpr std::size_t kQuotedMax = 120;

// The text with '?' for every control character and every byte that is no UTF-8.
std::string printable(std::string_view text);
// The same of a text of several lines: line ends stay.
std::string printable_lines(std::string_view text);

// How many characters of UTF-8 it has.
std::size_t characters(std::string_view text);

// At most `columns` characters of a line, "…" at its end where some are missing. UTF-8 stays whole.
std::string fitted(const std::string& line, std::size_t columns);

// What a message quotes of a file: printable, at most kQuotedMax characters.
std::string quotable(std::string_view text);

}  // namespace paceline
