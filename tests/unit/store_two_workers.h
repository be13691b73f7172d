// A shard of two workers, each on a node of its own.
#pragma once

#include "tests/unit/store_fixture.h"

namespace paceline::server {

inline const WorkerId kFirst(0, 0);
inline const WorkerId kSecond(1, 0);
inline const Cluster kTwo{2, 1};

inline wire::Contribution from(WorkerId worker, std::int64_t clock, std::int64_t samples = 1) {
  return {worker, Clock(clock), samples};
}

inline Shard shard_of_six(float value = 10.0F) { return ready_shard(kTwo, 6, value, settings_of(kTwo)); }

}  // namespace paceline::server
