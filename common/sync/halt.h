// Halt: from which clock on nobody begins an iteration: for good, once the run is stopped or has failed; or for
// a while, when it is to quiesce (QuiesceRequested). A stop ends that.
//
//   two groups of two workers; at the stop they are in iterations 4 and 5, and held at 7 and 7
//   last of the groups 6 and 7: of the first both come to 6, of the second nobody begins anything
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::sync {

// Thread: one (the engine's).
class Halt {
 public:
  // `group`: so many workers in a row stop at one clock (stopped_together()).
  explicit Halt(std::uint32_t group) : group_(group) {}

  // Nobody of group i gets beyond last[i]; `last` is empty where each stops wherever it is.
  void stop(std::string reason, std::vector<Clock> last) {
    reason_ = std::move(reason);
    last_ = std::move(last);
    end_quiesce();
  }
  bool stopping() const { return reason_.has_value(); }
  const std::string& reason() const { return *reason_; }  // of the stop; there is one
  // Whether a worker of this rank, at this clock, has no further iteration because of the stop.
  bool stops(Rank worker, Clock clock) const {
    return reason_ && (last_.empty() || clock >= last_[worker.value / group_]);
  }

  // Something was not finite. False: that is known.
  bool fail() { return !std::exchange(failed_, true); }
  bool failed() const { return failed_; }

  // Nobody begins an iteration stamped `from`, or later, until end_quiesce().
  void quiesce(Clock from) { quiesces_from_ = from; }
  void end_quiesce() {
    quiesces_from_.reset();
    quiesced_ = false;
  }
  bool quiescing() const { return quiesces_from_.has_value(); }
  bool blocks(Clock clock) const { return quiesces_from_ && clock >= *quiesces_from_; }
  // Nobody is in an iteration. True once: the run has quiesced as asked.
  bool take_quiesced() { return quiesces_from_ && !std::exchange(quiesced_, true); }

 private:
  std::uint32_t group_;
  std::optional<std::string> reason_;
  std::vector<Clock> last_;  // by group
  bool failed_ = false;
  std::optional<Clock> quiesces_from_;
  bool quiesced_ = false;
};

}  // namespace paceline::sync
