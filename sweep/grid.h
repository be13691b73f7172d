// A grid over configuration keys: axes, each a list of alternatives, and every combination of them a point.
//
// An alternative sets one key, or several that only make sense together. Values are YAML in flow style,
// everywhere. On the command line an axis is one argument:
//
//     sync.threshold=1,3,5                                        three alternatives
//     emulate.slowdown=[1,1,1,1],[1,1,1.3,1.6]                    two, each a list
//     '{sync.policy: bsp},{sync.policy: ssp, sync.threshold: 3}'  two, which set keys together
//
// and in a file an element of `axes`:
//
//     axes:
//       - sync.threshold: [1, 3, 5]
//       - - {sync.policy: bsp}
//         - {sync.policy: ssp, sync.threshold: 3}
//
// Points are numbered in the order of nested loops, the last axis innermost. An axis of one alternative is a
// plain override: no part of a point's name, no column of a table.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace paceline::sweep {

// A key of the configuration and the value it gets, in flow style.
struct Setting {
  std::string key;
  std::string value;
  bool operator==(const Setting&) const = default;
};

using Alternative = std::vector<Setting>;

struct Axis {
  std::vector<Alternative> alternatives;  // at least one, each with at least one setting
  // The keys that any alternative sets, each once, in the order of their appearance.
  std::vector<std::string> keys() const;
};

// Each point is loaded before the first is run, and is a folder.
inline constexpr std::size_t kPointsMax = 20'000;

class Grid {
 public:
  // `file`: the text of a grid file, called `source` in errors; empty: none. Its axes come first, then those
  // of `arguments`. Errors (kInvalidArgument, one line that names the key or the argument): YAML; no axis; an
  // axis without a value or with an empty one; an alternative twice; a key on two axes; run.out, which the
  // sweep sets itself; more than kPointsMax points. Whether keys exist and values make sense is seen when a
  // point is loaded (points.h).
  static Result<Grid> read(std::string_view file, const std::string& source,
                           std::span<const std::string> arguments);

  const std::vector<Axis>& axes() const { return axes_; }
  std::size_t points() const;
  // Which alternative of each axis a point is.
  std::vector<std::size_t> at(std::size_t point) const;
  // What a point changes in the configuration: "key=value", as the daemons take it.
  std::vector<std::string> overrides(std::size_t point) const;
  // Of axes with more than one alternative, in the order of the axes.
  std::vector<std::string> swept_keys() const;
  // "policy=ssp_threshold=3": what is swept, by the last word of each key (by the whole key where two keys
  // end alike), with nothing in it that a file name should not have.
  std::string label(std::size_t point) const;
  // The same of one alternative.
  std::string label(const Alternative& alternative) const;
  // Its run directory: number, then label, cut where it is long. "07-policy=ssp_threshold=3".
  std::string folder(std::size_t point) const;
  // The axes as a grid file: read() of it gives this grid again.
  std::string to_yaml() const;

 private:
  std::vector<Axis> axes_;
};

}  // namespace paceline::sweep
