// Acknowledged: what one shard's servers have told anybody, noted as it leaves, and what a replica that takes
// over must have for that to have been true.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/ids.h"
#include "common/wire/messages.h"
#include "tests/sim/counting.h"

namespace paceline::test {

class ReplicaState;

class Acknowledged {
 public:
  void note(const wire::Message& reported);
  // Says what `survivor` lacks of it.
  void check(const ReplicaState& survivor, Violations& violations) const;

 private:
  using Gradient = std::pair<WorkerId, Clock>;
  std::map<Gradient, std::int64_t> granted_;  // iterations
  std::set<WorkerId> finished_;
  std::set<Gradient> whole_;    // gradients that the authority was told of
  Revision revision_;           // the newest that somebody was given parameters of
  std::int64_t decisions_ = 0;  // so many at least another shard was told
};

}  // namespace paceline::test
