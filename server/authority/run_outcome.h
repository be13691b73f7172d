// RunOutcome: how far a run is, and how it ends: its status as summary.json has it, why it is not "ok", and who may
// go on with it. Whatever part finds that it cannot go on says so here.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "common/status.h"
#include "common/wire/messages.h"
#include "server/authority/run_stage.h"

namespace paceline::server {

class RunOutcome {
 public:
  enum class Kind { kOk, kStopped, kFailed, kInvalid };

  RunStage stage() const { return stage_; }
  bool is(RunStage stage) const { return stage_ == stage; }
  bool training() const { return is(RunStage::kTraining); }
  // Nothing that is still said changes how the run went.
  bool concluded() const { return stage_ >= RunStage::kFiling; }
  void enter(RunStage stage) { stage_ = stage; }

  Kind kind() const { return kind_; }
  // As summary.json has it.
  std::string status() const {
    constexpr const char* kNames[] = {"ok", "stopped", "failed", "invalid"};
    return kNames[static_cast<std::size_t>(kind_)];
  }
  bool is_ok() const { return kind_ == Kind::kOk; }
  bool is_stopped() const { return kind_ == Kind::kStopped; }
  bool has_failed() const { return kind_ == Kind::kFailed; }
  // Not OK: why it is not "ok", or what was wrong besides.
  const Status& result() const { return result_; }

  // These note how the run ends; RunEnd ends it.
  void set_stopped(Status why) { become(Kind::kStopped, std::move(why)); }
  void set_failed(Status why) { become(Kind::kFailed, std::move(why)); }
  void set_invalid(Status why) { become(Kind::kInvalid, std::move(why)); }
  // It ends before its time. Who is lost while a failed run comes to its end gives it no other reason, and none to go
  // on from a checkpoint; and it is not handed over any more.
  void give_up(const Status& reason) {
    const Status why = has_failed() ? result_ : reason;
    if (std::exchange(reconfigures_, false)) kind_ = Kind::kOk;
    if (is_ok()) kind_ = Kind::kFailed;
    result_ = why;
  }
  // The end finds that something is missing: a run that has ended for another reason says that, too.
  void lacks(const std::string& what) {
    if (is_ok()) return set_failed(failed_precondition(what));
    result_ = Status(result_.code(), result_.message() + "; " + what);
  }
  // The end finds a fault that is no other reason for one that has ended for another.
  void set_failed_unless_ended(const Status& why) {
    if (is_ok()) kind_ = Kind::kFailed;
    note(why);
  }
  // A fault that leaves the status as it is.
  void note(const Status& fault) {
    if (result_.is_ok()) result_ = fault;
  }

  // Training ended with its last node.
  void lose_everybody() { nobody_left_ = true; }
  bool nobody_left() const { return nobody_left_; }
  // It has failed, and new servers could go on from a checkpoint.
  void set_resumable(bool may_be) { resumable_ = may_be; }
  bool resumable() const { return resumable_; }
  // The servers are to go on by themselves.
  void reconfigure(Status why) {
    set_stopped(std::move(why));
    reconfigures_ = resumable_ = true;
  }
  bool reconfigures() const { return reconfigures_; }

  // As nodes are told of it.
  wire::RunOver as_message() const { return {result_.code(), result_.message(), resumable_}; }

 private:
  void become(Kind kind, Status why) {
    kind_ = kind;
    result_ = std::move(why);
  }

  RunStage stage_ = RunStage::kGathering;
  Kind kind_ = Kind::kOk;
  Status result_;
  bool nobody_left_ = false;
  bool resumable_ = false;
  bool reconfigures_ = false;
};

}  // namespace paceline::server
