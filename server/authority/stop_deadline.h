// StopDeadline: a stop lets every worker finish what it was granted: the iteration it is in, and one more that was
// granted ahead; and where several stop together (sync::stopped_together()) all up to the furthest one's. One whose
// iteration does not end (a task that hangs while its node's heartbeats go on) would make a stop, a signal's too, wait
// for ever.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/engine.h"
#include "server/authority/worker_speeds.h"
#include "server/run/seconds_text.h"

namespace paceline::server {

class StopDeadline {
 public:
  // How long a node that is alive may take for an iteration, in leases; where iterations are longer, so many times the
  // longest one seen.
  static constexpr int kLeases = 10;
  static constexpr int kIterations = 3;
  // The same for `iterations` one after another.
  static std::chrono::nanoseconds allowed(const RunConfig& config, const WorkerSpeeds& speeds,
                                          std::int64_t iterations) {
    return std::max<std::chrono::nanoseconds>(kLeases * config.cluster.lease,
                                              iterations * kIterations * speeds.longest());
  }

  // All outlive this.
  StopDeadline(const RunConfig& config, const sync::Engine& engine, const WorkerSpeeds& speeds)
      : config_(config), engine_(engine), speeds_(speeds) {}

  using Overdue = std::vector<std::pair<WorkerId, Status>>;
  // Time passes while training goes on. Who has not ended in time, by rank, and what that is: losing one may end it for
  // the others.
  Overdue take_overdue(Ticks now) {
    Overdue late;
    if (!engine_.stopping()) return late;
    if (!since_) since_ = now;
    const auto may_take = allowed(config_, speeds_, most_left());
    if (now - *since_ <= may_take) return late;
    const Cluster cluster = config_.cluster.cluster();
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId worker = cluster.worker_at(Rank(r));
      if (!engine_.is_live(worker)) continue;
      late.emplace_back(worker, deadline_exceeded("worker " + to_string(worker) +
                                                  " has not finished its iteration of clock " +
                                                  to_string(engine_.clock_of(worker)) + " within " +
                                                  whole_seconds_text(may_take) + " of the stop"));
    }
    return late;
  }

 private:
  // How many iterations the slowest may have to do yet.
  std::int64_t most_left() const {
    const bool together = sync::stopped_together(engine_.config()) > 1;
    return (config_.exchange.hidden ? 2 : 1) + (together ? engine_.max_clock_gap().value : 0);
  }

  const RunConfig& config_;
  const sync::Engine& engine_;
  const WorkerSpeeds& speeds_;
  std::optional<Ticks> since_;
};

}  // namespace paceline::server
