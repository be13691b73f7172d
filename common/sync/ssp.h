// SSP, stale-synchronous parallel: a fixed s. The fast may lead the slowest by s clocks when they begin an
// iteration. Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
// NIPS 2013, section 2.
#pragma once

#include "common/sync/policy.h"

namespace paceline::sync {

class Ssp final : public Policy {
 public:
  explicit Ssp(Threshold s) : s_(s) {}
  Threshold threshold() const override { return s_; }

 private:
  Threshold s_;
};

}  // namespace paceline::sync
