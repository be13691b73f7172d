// BSP, bulk-synchronous parallel: s = 0. Nobody begins clock c before everybody completed c - 1; a worker at
// clock c computes with exactly version c. Valiant, "A bridging model for parallel computation", CACM 33(8),
// 1990.
#pragma once

#include "common/sync/policy.h"

namespace paceline::sync {

class Bsp final : public Policy {
 public:
  Threshold threshold() const override { return Threshold(0); }
};

}  // namespace paceline::sync
