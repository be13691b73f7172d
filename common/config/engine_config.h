// What the synchronisation core must know of a run, taken from its configuration: the one translation that
// the daemons and the simulator share. Shards and nodes need its policy, to know how large a threshold can
// get.
#pragma once

#include "common/config/run_config.h"
#include "common/sync/engine_config.h"

namespace paceline {

// The engine's part of a run's configuration; valid (sync::validate) where `config` was loaded.
sync::EngineConfig engine_config(const RunConfig& config);

}  // namespace paceline
