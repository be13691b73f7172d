// What a shard needs of the run's configuration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>

#include "common/config/run_config.h"
#include "common/encode/encoding.h"
#include "common/params/step_factors.h"
#include "common/process/machine.h"

namespace paceline::server {

struct ShardSettings {
  OptimizerSection optimizer;
  FactorRanges factors{};  // of the shard's range: Shard makes them of its layout
  Cluster cluster;
  std::int64_t block_floats = 1;  // floats per block and per Parameters frame, >= 1
  // Held per worker: the largest threshold + 2; where each is applied on arrival 2, however late decisions
  // are here, since the one that fills this is announced when a decision has made room
  // (server/service/shard_service.h). Where grants go ahead one more, and room for two is kept: its worker may have the
  // next one under way.
  std::size_t gradients_max = 2;
  std::size_t room_kept = 1;
  // Of a thread's own gradients, missing in what its node has and may go on with (cache::missing_max()).
  std::int64_t missing_max = 2;
  Encoding gradient_encoding = Encoding::kFp32;  // of pushes
  std::size_t apply_threads = 1;                 // >= 1
  // A range of up to this many floats is applied by the loop's thread alone, which takes it some 2 ms: the
  // others would have to be woken, and waited for when the cores are busy with gradients. With cores to spare
  // it takes as long as to wake somebody: 0.1 ms.
  static constexpr std::int64_t kAloneWithCoresToSpare = std::int64_t{1} << 18;
  std::int64_t apply_alone_floats = std::int64_t{4} << 20;
  // Where the parameters lie, so that replies can be shared with nodes of this machine; null: the heap.
  std::shared_ptr<std::pmr::memory_resource> memory{};

  // What the next decision is predicted from (store/speculative_apply.h). Those of the first decision: a run may turn
  // eager, and each, with any (sync::apply_in()).
  ApplyMode apply = ApplyMode::kVersioned;
  CombineMode combine = CombineMode::kEach;
  bool turns_eager = false;
  double rate_scale = 1.0;
  std::int64_t planned_versions = 1;
  // Delay compensation: whether workers apply their own gradients locally.
  bool local_updates = true;
  // Whether it is prepared while gradients arrive. Not where parameters travel in fewer bytes: those bytes,
  // the current state and the next one together would be more than the parameters twice.
  bool prepare_next = true;
  // All-reduce: the nodes hold the parameters, and node 0 sends them where they are to be saved, and in the end.
  bool replaced = false;
};

// For a process that may use so many cores; 0: it is not known.
ShardSettings shard_settings(const RunConfig& config, std::uint32_t cores = usable_cores());

}  // namespace paceline::server
