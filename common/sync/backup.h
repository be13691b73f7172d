// Backup workers: b more workers than gradients are waited for. A clock closes as soon as N = workers - b
// gradients of it are whole, and the others are late: their gradients of that clock are dropped on every
// shard, and they go on at the newest clock once they have reported. Nobody computes with stale parameters,
// and a clock costs what its N-th fastest worker takes, not its slowest. Chen, Pan, Monga, Bengio and
// Jozefowicz, "Revisiting distributed synchronous SGD", ICLR workshop 2016, section 3 and algorithms 3, 4.
//
//   N = 2 of A B C, all granted clock 0: A and B complete it   ->   C@0 is dropped, version 1 = {A@0, B@0}
//   A and B are granted clock 1, C still computes its 0; A completes 1, then C reports 0
//                                                               ->   C is granted clock 1, as A and B were
//   C completes 1 before B                                      ->   B@1 is dropped, version 2 = {A@1, C@1}
//
// s = 0: who is granted clock c computes with exactly version c. Which gradients a clock takes is the
// Engine's to see to (close_without_late()), since it alone knows what is whole where; b = 0 is BSP, action
// for action.
#pragma once

#include <cstdint>

#include "common/sync/policy.h"

namespace paceline::sync {

// N, how many gradients close a clock: for the engine, and for what plans by clocks
// (common/params/schedule.h).
constexpr std::int64_t first_n(std::int64_t workers, std::int64_t backup_workers) {
  return workers - backup_workers;
}

class Backup final : public Policy {
 public:
  Threshold threshold() const override { return Threshold(0); }
};

}  // namespace paceline::sync
