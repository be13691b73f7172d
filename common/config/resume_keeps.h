// What a resume may not change, of a run that goes on by the config.yaml in its own folder: said before any daemon
// starts, by the key that was given, or else by what follows from it.
#pragma once

#include <span>
#include <string>

#include "common/status.h"

namespace paceline {

// OK where none of `overrides` gives a key that a run has from its start to its end (AgreedBy::kRun in load.h) another
// value than the file at `recorded`, nor changes one by another, as data.train_samples does where the file says epochs.
// What load_config() refuses of either is left to it. Errors: kInvalidArgument, all these keys with both values.
// Thread: any.
[[nodiscard]] Status check_resume_keeps(const std::string& recorded, std::span<const std::string> overrides);

}  // namespace paceline
