// From YAML to axes: one element of a grid file, one argument of the command line. Internal to sweep/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sweep/grid.h"

namespace paceline::sweep {

// The axes of a grid file (grid.h), in its order. Errors: kInvalidArgument, `source:line: …`.
Result<std::vector<Axis>> axes_of_file(std::string_view text, const std::string& source);

// "key=v1,v2" or "{key: v, …},{…}". Errors: kInvalidArgument, `command line: …`.
Result<Axis> axis_of_argument(const std::string& argument);

}  // namespace paceline::sweep
