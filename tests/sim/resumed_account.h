// ResumedAccount: what a run that is saved and resumed has done, kept apart from the engine: the log of all
// that was applied, over every generation. A mark remembers how long the log was at a save; to rewind to it
// is what a lost server does to the parameters.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/metric.h"
#include "common/sync/actions.h"
#include "common/sync/engine_config.h"
#include "tests/sim/counting.h"

namespace paceline::test {

// An iteration that is applied, or closed without a gradient.
struct LoggedIteration {
  sync::Grant grant;
  bool skipped = false;
  Metric metric;  // none where its worker was lost before it could say
  std::int64_t staleness = 0;
};

struct LoggedWindow {
  std::int64_t index = 0;
  double value = 0.0;  // what the LPR is computed from
};

class ResumedAccount {
 public:
  struct Mark {
    std::size_t iterations = 0, windows = 0;
    Version version;
    Revision revision;
    Threshold threshold;
  };

  ResumedAccount(const sync::EngineConfig& config, Threshold threshold, Violations& violations)
      : config_(config), violations_(violations), threshold_(threshold) {}

  Mark mark() const { return {log_.size(), windows_.size(), version_, revision_, threshold_}; }
  // All that came after `mark` never was.
  void rewind(const Mark& mark);

  // `done` has arrived whole everywhere, and may be applied from here on.
  void complete(const LoggedIteration& done);
  // `lead`: of its worker before the slowest, at the grant.
  void check(const sync::Grant& grant, Staleness lead);
  void check(const sync::Apply& apply);
  void check(const sync::VersionAdvanced& advanced);
  void check(const sync::ThresholdChanged& changed);
  void check(const sync::PolicySwitched& switched);
  void check(const sync::WindowClosed& window);

  // Judges a run that did all it had to. `nobody_missed`: no iteration can have been left to one who was
  // lost.
  void at_end(bool nobody_missed);

  const std::vector<LoggedIteration>& log() const { return log_; }

 private:
  void violation(const std::string& what) { violations_.push_back("resumed: " + what); }
  void take(WorkerId worker, Clock clock, bool skipped, std::int64_t staleness);

  const sync::EngineConfig& config_;
  Violations& violations_;
  std::map<std::pair<WorkerId, Clock>, LoggedIteration> complete_;  // not applied yet
  std::vector<LoggedIteration> log_;
  std::vector<LoggedWindow> windows_;
  Version version_, begins_;
  Revision revision_;
  Threshold threshold_;
};

}  // namespace paceline::test
