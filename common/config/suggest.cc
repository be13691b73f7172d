#include "common/config/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace paceline::config {
namespace {

constexpr std::size_t kLengthMax = 100;  // longer words are not misspellings of ours

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// Levenshtein's edit distance, by which two neighbouring letters that were swapped are one mistake, too (optimal string
// alignment). One row of the table behind another.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // of two letters of `a` fewer
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggest(std::string_view unknown, std::span<const std::string> paths) {
  const std::string_view word = last_word(unknown);
  if (word.empty() || unknown.size() > kLengthMax) return "";
  std::string best;
  std::size_t best_distance = 2 * kLengthMax;
  for (const std::string& path : paths) {
    const std::size_t of_word = edit_distance(word, last_word(path));
    if (of_word * 2 > word.size()) continue;
    // The whole path breaks ties: the candidate nearest to where the key was written.
    const std::size_t distance = of_word * 2 * kLengthMax + edit_distance(unknown, path);
    if (best.empty() || distance < best_distance) {
      best = path;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace paceline::config
