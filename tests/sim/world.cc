#include "tests/sim/world.h"

#include <memory>

#include "tests/sim/checkpoint.h"
#include "tests/sim/generation.h"

namespace paceline::test {

Faults& Faults::operator+=(const Faults& other) {
  nodes_cut += other.nodes_cut;
  shards_cut += other.shards_cut;
  messages_lost += other.messages_lost;
  gone_on += other.gone_on;
  retransmitted_by_nodes += other.retransmitted_by_nodes;
  retransmitted_to_nodes += other.retransmitted_to_nodes;
  retransmitted_by_servers += other.retransmitted_by_servers;
  lost_by_lease += other.lost_by_lease;
  back_after_lease += other.back_after_lease;
  server_crashes += other.server_crashes;
  quiesced += other.quiesced;
  done_again += other.done_again;
  ahead += other.ahead;
  grants_ahead += other.grants_ahead;
  return *this;
}

Violations simulate(const RunPlan& plan, Traffic* traffic, Faults* faults) {
  Violations violations;
  std::shared_ptr<const Checkpoint> from;
  for (std::uint32_t generation = 0;; ++generation) {
    if (from != nullptr) {
      const Status status = validate(from->state, plan.config);
      if (!status.is_ok()) return {"a state that is no run's: " + status.message()};
    }
    Generation world(plan, generation, from.get(), violations);
    world.run();
    if (traffic != nullptr) *traffic = world.traffic();
    if (faults != nullptr) *faults += world.faults();
    if (!world.has_crashed() || !violations.empty()) return violations;
    from = world.last_checkpoint();
  }
}

}  // namespace paceline::test
