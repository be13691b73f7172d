// All-reduces as text (`paceline schedule`): who sends which floats of each bucket to whom, in which order, and how
// long that takes on the links of simulate.network. Of stages: who sums with whom, and what it takes.
#pragma once

#include <iosfwd>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/stages.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

// Of all nodes, every row of the plans of `layout`'s buckets, checked. Errors: those of planners and checker.
[[nodiscard]] Status print_sums(const RunConfig& config, const Layout& layout, std::ostream& out);

// Of a run whose nodes sum stage by stage (common/config/reducing.h): a line for each stage, and for each of its
// buckets, checked. Gives how long each stage's buckets take, one after another, in seconds. Errors as above.
[[nodiscard]] Result<std::vector<double>> print_sums_of_stages(const RunConfig& config, const Layout& layout,
                                                               const std::vector<Range>& held,
                                                               std::ostream& out);

}  // namespace paceline
