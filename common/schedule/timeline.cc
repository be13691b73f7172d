#include "common/schedule/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace paceline::schedule {
namespace {

constexpr std::size_t kBlocksMax = 8;
constexpr std::size_t kNameLonger = 6;  // so much a block may be shorter than it should be

std::string name_of_pass(const PassTime& pass) { return to_string(PipelineRows{pass.row}); }

// In which column each instant of `times` at which a pass begins or ends is.
std::map<double, std::size_t> columns_of(const PipelineTimes& times, std::size_t columns) {
  std::map<double, std::vector<const PassTime*>> ends;  // by instant, the passes that end then
  for (const auto& rows : times.rows) {
    for (const PassTime& pass : rows) {
      ends[pass.begin];
      if (pass.end > pass.begin) ends[pass.end].push_back(&pass);
    }
  }
  std::map<double, std::size_t> at;
  std::size_t more = 0;  // columns than in proportion so far
  for (const auto& [instant, ended] : ends) {
    const auto share = instant / times.step * static_cast<double>(columns);
    const std::size_t due = static_cast<std::size_t>(share) + more;
    std::size_t column = due;
    for (const PassTime* pass : ended)
      column = std::max(column, at.at(pass->begin) + name_of_pass(*pass).size() + 1);
    more += column - due;
    at[instant] = column;
  }
  return at;
}

// Where blocks of at most `columns` begin, about equally long, and the last one's end: not within a name.
std::vector<std::size_t> blocks_of(const PipelineTimes& times, const std::map<double, std::size_t>& at,
                                   std::size_t length, std::size_t columns) {
  std::vector<bool> is_within(length + 1, false);
  for (const auto& rows : times.rows) {
    for (const PassTime& pass : rows) {
      if (!(pass.end > pass.begin)) continue;
      const std::size_t begin = at.at(pass.begin);
      std::fill_n(is_within.begin() + static_cast<std::ptrdiff_t>(begin) + 1, name_of_pass(pass).size() - 1,
                  true);
    }
  }
  const std::size_t count = (length + columns - 1) / columns;
  const std::size_t width = std::min(columns, (length + count - 1) / count + kNameLonger);
  std::vector<std::size_t> begins = {0};
  while (length - begins.back() > width) {
    std::size_t next = begins.back() + width;
    while (next > begins.back() && is_within[next]) --next;
    begins.push_back(next > begins.back() ? next : begins.back() + width);
  }
  begins.push_back(length);
  return begins;
}

}  // namespace

std::string timeline(const PipelineTimes& times, std::size_t columns) {
  if (!(times.step > 0)) return "";
  const std::map<double, std::size_t> at = columns_of(times, columns);
  const std::size_t length = at.empty() ? columns : std::max(columns, at.rbegin()->second);
  std::vector<std::string> lines;
  for (const auto& rows : times.rows) {
    std::string line(length, '.');
    for (const PassTime& pass : rows) {
      if (!(pass.end > pass.begin)) continue;
      const std::size_t begin = at.at(pass.begin);
      std::string name = name_of_pass(pass);
      name.resize(at.at(pass.end) - begin, '-');
      line.replace(begin, name.size(), name);
    }
    lines.push_back(std::move(line));
  }
  const std::vector<std::size_t> begins = blocks_of(times, at, length, columns);
  const std::size_t blocks = begins.size() - 1;
  std::string text;
  for (std::size_t b = 0; b < blocks; ++b) {
    if (blocks > kBlocksMax && b == kBlocksMax / 2) {
      b = blocks - kBlocksMax / 2;
      text += "\n(" + std::to_string(begins[b] - begins[kBlocksMax / 2]) + " columns left out)\n";
    }
    text += b == 0 ? "" : "\n";
    for (std::size_t s = 0; s < lines.size(); ++s) {
      text += "stage " + std::to_string(s) + std::string(s < 10 ? " " : "") + " " +
              lines[s].substr(begins[b], begins[b + 1] - begins[b]) + "\n";
    }
  }
  return text;
}

}  // namespace paceline::schedule
