// Holm: several comparisons at once. At 5 % each, one in twenty of them finds a difference where there is
// none; Holm's step-down correction (Holm 1979, "A simple sequentially rejective multiple test procedure")
// keeps the chance of even one such among all of them at 5 %, whatever they have in common.
//
// Worked example, three comparisons: p = 0.01, 0.04, 0.03. In ascending order 0.01, 0.03, 0.04 are multiplied
// by 3, 2, 1 and never fall: 0.03, 0.06, 0.06. Only the first is below 0.05.
#pragma once

#include <span>
#include <vector>

namespace paceline::statistics {

// The adjusted p of each, in the order given: below 0.05 where the difference counts. Each p is in [0, 1].
std::vector<double> holm_adjusted(std::span<const double> p);

}  // namespace paceline::statistics
