// When the model is evaluated, and by whom: every `every` versions while training, and the final model at the
// end. A version is retained by every shard from the decision that reaches it until its evaluation is over;
// at most two are, one being evaluated and one waiting. A version that comes due while both places are taken
// is skipped.
//
// Worked example, every 10: version 10 is retained and asked of node 0; 20 is retained and waits; 30 is
// skipped; node 0 reports 10 -> 10 is released and 20 asked for.
//
// Pure. Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/metric_sum.h"
#include "common/wire/messages.h"

namespace paceline::server {

// When a version was reached: what its row of curve.csv says, however long the evaluation takes.
struct Moment {
  double seconds = 0.0;  // since the first grant
  Threshold threshold;
  std::int64_t iterations = 0;  // in the parameters; of local steps the mini-batches
  MetricSum trained = {};       // of all reports by then
};

class EvaluationSchedule {
 public:
  // nullopt: only the final model.
  explicit EvaluationSchedule(std::optional<std::int64_t> every) : every_(every) {}

  // Whether reached() of it would be true.
  bool takes(Version version) const { return is_due(version) && !is_full(); }

  // The version has been reached. True: retain it; it will be evaluated.
  bool reached(Version version, Moment moment = {}) {
    if (!is_due(version)) return false;
    if (is_full()) {
      ++skipped_;
      return false;
    }
    (current_ ? waiting_ : current_) = Retained{version, moment};
    return true;
  }

  // The final model, once idle(): it is retained too.
  void reached_final(Version version, Moment moment = {}) {
    current_ = Retained{version, moment};
    final_ = true;
  }

  // What to ask of whom now; nothing while somebody is at it, nothing is due or nobody is there.
  std::optional<wire::Evaluate> ask(std::optional<NodeId> node) {
    if (!current_ || asked_ || !node) return std::nullopt;
    asked_ = node;
    return wire::Evaluate{current_->version, final_};
  }

  // A report of `node` about `version`: when that was reached, and the version may be released; nullopt: it
  // was not asked for.
  std::optional<Moment> reported(NodeId node, Version version) {
    if (asked_ != node || !current_ || current_->version != version) return std::nullopt;
    const Moment moment = current_->moment;
    asked_.reset();
    current_ = waiting_;
    waiting_.reset();
    final_ = false;
    return moment;
  }

  // Who has been asked for what and has not answered.
  struct Asked {
    NodeId node;
    Version version;
  };
  std::optional<Asked> asked() const {
    if (!asked_) return std::nullopt;
    return Asked{*asked_, current_->version};
  }

  // The one that is retained until that is over.
  std::optional<Version> waiting() const {
    return waiting_ ? std::optional(waiting_->version) : std::nullopt;
  }

  // The same as it was asked; nothing where nothing is asked of this node.
  std::optional<wire::Evaluate> asked_of(NodeId node) const {
    if (asked_ != node) return std::nullopt;
    return wire::Evaluate{current_->version, final_};
  }

  // Nobody waits for that report any longer: its version may be released.
  void give_up() {
    given_up_ = asked();
    reported(given_up_->node, given_up_->version);
  }
  // Whether the report is of an evaluation that was given up, and so is no fault. (A node evaluates in the
  // order in which it is asked, and reports each once.)
  bool late(NodeId node, Version version) {
    if (!given_up_ || given_up_->node != node || version > given_up_->version || version <= late_)
      return false;
    late_ = version;
    return true;
  }

  // The node has gone: another one is asked next. Another process of it owes nothing.
  void gone(NodeId node) {
    if (asked_ == node) asked_.reset();
    if (!given_up_ || given_up_->node != node) return;
    given_up_.reset();
    late_ = kNoVersion;
  }

  // Nobody is left to ask. What was retained for it and may be released.
  std::vector<Version> abandon() {
    std::vector<Version> retained;
    if (current_) retained.push_back(current_->version);
    if (waiting_) retained.push_back(waiting_->version);
    current_.reset();
    waiting_.reset();
    asked_.reset();
    final_ = false;
    return retained;
  }

  bool idle() const { return !current_; }
  std::int64_t skipped() const { return skipped_; }

 private:
  bool is_due(Version version) const { return every_ && version.value != 0 && version.value % *every_ == 0; }
  bool is_full() const { return waiting_ || (current_ && final_); }

  std::optional<std::int64_t> every_;
  struct Retained {
    Version version;
    Moment moment;
  };
  std::optional<Retained> current_;
  std::optional<Retained> waiting_;
  std::optional<NodeId> asked_;
  std::optional<Asked> given_up_;  // the newest
  Version late_ = kNoVersion;      // the newest that was reported all the same
  bool final_ = false;
  std::int64_t skipped_ = 0;
};

}  // namespace paceline::server
