#include "sweep/grid.h"

#include <algorithm>
#include <utility>

#include "sweep/axes.h"

namespace paceline::sweep {
namespace {

constexpr std::size_t kLabelMax = 150;  // of a folder's name; file systems have 255 bytes for one

std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// What a file name may have of a value: "[1, 1, 1.3, 1.6]" becomes "1-1-1.3-1.6".
std::string in_file_name(const std::string& value) {
  std::string name;
  for (const char c : value) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '.' || c == '+' || c == '-' || c == '_') {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

std::string shown(const Alternative& alternative) {
  std::string text;
  for (const Setting& s : alternative) text += (text.empty() ? "" : ", ") + s.key + ": " + s.value;
  return "{" + text + "}";
}

Status check(const std::vector<Axis>& axes) {
  std::vector<std::string> keys;
  for (const Axis& axis : axes) {
    for (const std::string& key : axis.keys()) {
      if (key == "run.out") {
        return invalid_argument("run.out: a sweep gives each point a run directory of its own in --out");
      }
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
        return invalid_argument(key + ": on two axes, expected one axis for each key");
      }
      keys.push_back(key);
    }
    for (std::size_t i = 0; i < axis.alternatives.size(); ++i) {
      const auto first = std::find(axis.alternatives.begin(), axis.alternatives.end(), axis.alternatives[i]);
      if (first - axis.alternatives.begin() == static_cast<std::ptrdiff_t>(i)) continue;
      return invalid_argument(axis.keys().front() + ": " + shown(axis.alternatives[i]) +
                              " stands twice on one axis, expected it once");
    }
  }
  return Status::ok();
}

}  // namespace

std::vector<std::string> Axis::keys() const {
  std::vector<std::string> keys;
  for (const Alternative& alternative : alternatives) {
    for (const Setting& setting : alternative) {
      if (std::find(keys.begin(), keys.end(), setting.key) == keys.end()) keys.push_back(setting.key);
    }
  }
  return keys;
}

Result<Grid> Grid::read(std::string_view file, const std::string& source,
                        std::span<const std::string> arguments) {
  Grid grid;
  if (!file.empty()) {
    PACELINE_ASSIGN_OR_RETURN(grid.axes_, axes_of_file(file, source));
  }
  for (const std::string& argument : arguments) {
    PACELINE_ASSIGN_OR_RETURN(Axis axis, axis_of_argument(argument));
    grid.axes_.push_back(std::move(axis));
  }
  if (grid.axes_.empty()) {
    return invalid_argument("no axis, expected key.path=value,value,… or a file of --grid");
  }
  PACELINE_RETURN_IF_ERROR(check(grid.axes_));
  std::size_t points = 1;
  for (const Axis& axis : grid.axes_) {
    points *= axis.alternatives.size();
    if (points > kPointsMax) {
      return invalid_argument("too large a grid, expected at most " + std::to_string(kPointsMax) + " points");
    }
  }
  return grid;
}

std::size_t Grid::points() const {
  std::size_t points = 1;
  for (const Axis& axis : axes_) points *= axis.alternatives.size();
  return points;
}

std::vector<std::size_t> Grid::at(std::size_t point) const {
  PACELINE_ASSERT(point < points(), "the grid has no point " + std::to_string(point));
  std::vector<std::size_t> chosen(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0;) {
    chosen[a] = point % axes_[a].alternatives.size();
    point /= axes_[a].alternatives.size();
  }
  return chosen;
}

std::vector<std::string> Grid::overrides(std::size_t point) const {
  const std::vector<std::size_t> chosen = at(point);
  std::vector<std::string> overrides;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    for (const Setting& s : axes_[a].alternatives[chosen[a]]) overrides.push_back(s.key + "=" + s.value);
  }
  return overrides;
}

std::vector<std::string> Grid::swept_keys() const {
  std::vector<std::string> keys;
  for (const Axis& axis : axes_) {
    if (axis.alternatives.size() == 1) continue;
    for (std::string& key : axis.keys()) keys.push_back(std::move(key));
  }
  return keys;
}

std::string Grid::label(const Alternative& alternative) const {
  const std::vector<std::string> keys = swept_keys();
  std::string label;
  for (const Setting& s : alternative) {
    const std::string word = last_word(s.key);
    const auto alike = std::count_if(keys.begin(), keys.end(),
                                     [&](const std::string& key) { return last_word(key) == word; });
    label += (label.empty() ? "" : "_") + (alike > 1 ? s.key : word) + "=" + in_file_name(s.value);
  }
  return label;
}

std::string Grid::label(std::size_t point) const {
  const std::vector<std::size_t> chosen = at(point);
  std::string text;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const std::vector<Alternative>& alternatives = axes_[a].alternatives;
    if (alternatives.size() > 1) text += (text.empty() ? "" : "_") + label(alternatives[chosen[a]]);
  }
  return text;
}

std::string Grid::folder(std::size_t point) const {
  std::string number = std::to_string(point + 1);
  number.insert(0, std::to_string(points()).size() - number.size(), '0');
  const std::string name = label(point).substr(0, kLabelMax);
  return name.empty() ? number : number + "-" + name;
}

std::string Grid::to_yaml() const {
  std::string text = "axes:\n";
  for (const Axis& axis : axes_) {
    bool first = true;
    for (const Alternative& alternative : axis.alternatives) {
      text += (first ? "  - - " : "    - ") + shown(alternative) + "\n";
      first = false;
    }
  }
  return text;
}

}  // namespace paceline::sweep
