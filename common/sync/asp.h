// ASP, asynchronous parallel: s = infinity. Nobody ever waits, and nothing bounds how old the parameters are
// that a worker computes with. Dean et al., "Large scale distributed deep networks", NIPS 2012 (Downpour
// SGD).
#pragma once

#include "common/sync/policy.h"

namespace paceline::sync {

class Asp final : public Policy {
 public:
  Threshold threshold() const override { return Threshold::infinite(); }
};

}  // namespace paceline::sync
