// What a run whose training loop is the user's own cannot have: settings that only the built-in networks follow, and
// buffers where their values would not arrive.
#pragma once

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

// Of the configuration alone, a valid one. Errors: kInvalidArgument a setting that nothing would read; those of
// check_one_worker() and check_descriptors().
[[nodiscard]] Status check_loop(const RunConfig& config);

// Of the model that the loop brings, as a network of train.layers with a batch_norm is checked when it is read. Errors:
// kInvalidArgument a buffer whose values would be changed on their way.
[[nodiscard]] Status check_model(const RunConfig& config, const Layout& layout);

}  // namespace paceline
