// What the synchronisation core must know of a run, taken from its configuration: the one translation that
// the daemons and the simulator share. Shards and nodes need its policy, to know how large a threshold can
// get.
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/sync/engine_config.h"

namespace paceline {

// How many iterations a share of `total_iterations` is, rounded up: 14000 is 0.14 of 100000, though their
// product as floating-point numbers is a little more.
double iterations_of(double progress, std::int64_t total_iterations);

// The engine's part of a run's configuration; valid (sync::validate) where `config` was loaded.
sync::EngineConfig engine_config(const RunConfig& config);

}  // namespace paceline
