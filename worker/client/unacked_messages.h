// What a node has said to its servers and is not known to have been heard with: after a connection broke it
// is said again over the next one (server_connections_reconnect.cc). The servers drop what they had heard.
//
//   of each thread   the gradient that it has not been granted past: what has left of it, in the same bytes
//                    its report; where grants go ahead (exchange.hidden) two of each
//   of the node      initial parameters, until something is granted; that it is ready, and what else it says at the
//                    start, likewise
//                    the evaluation that was asked for last; its report at the end, and what the run has come to
//
// A grant past a clock says that every shard has that gradient whole, and that its report is taken; where grants go
// ahead it says so of the clock before. What a
// server may say again after a break is told here, too: a grant by its clock, an evaluation by its version.
//
// Memory: of each thread one gradient (or the bytes it was encoded in), whose buffer it would not use before that
// grant anyway; where grants go ahead two, for which it has buffers; of node 0 its initial values until training
// begins. Thread: the I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/wire/messages.h"
#include "worker/client/gradient_sender.h"
#include "worker/client/server_link.h"
#include "worker/exchange/run_state.h"

namespace paceline {

class UnackedMessages {
 public:
  explicit UnackedMessages(std::uint32_t threads, bool granted_ahead = false)
      : granted_ahead_(granted_ahead), threads_(threads) {}

  // ---- what the node says
  void pushed(const GradientPart& part);
  void withdrawn(std::uint32_t thread, Clock clock);
  void reported(const wire::StepReport& report) {
    threads_.at(report.worker.thread).reports.push_back(report);
  }
  void initial(std::shared_ptr<const std::vector<float>> values) { initial_ = std::move(values); }
  void ready() { ready_ = true; }
  void at_start(wire::Body body) { at_start_.push_back(std::move(body)); }
  void final_state(std::shared_ptr<const RunState> state) { final_state_ = std::move(state); }
  void evaluated(const wire::EvaluationReport& report) { evaluated_ = report; }
  void done(const wire::NodeReport& report) { done_ = report; }

  // ---- what the authority says; false where it has said so before
  bool granted(std::uint32_t thread, Clock clock);
  bool finished(std::uint32_t thread);
  bool asked(const wire::Evaluate& request);
  // That it is the authority of another generation: what was said before was another's.
  void forget_all();

  // How many gradients there are that have left, in part or whole.
  std::int64_t gradients() const;
  // Says all of it again that is for this server. `left`: called with each gradient's thread and owner, as
  // GradientPart::whole. Errors: those of the socket.
  template <typename Left>
  Status retransmit(ServerLink& link, std::int64_t frame_bytes, const Left& left) {
    for (std::uint32_t t = 0; t < threads_.size(); ++t) {
      for (GradientPart part : threads_[t].parts) {
        part.mark_retransmitted();
        left(t, part.whole);
        PACELINE_RETURN_IF_ERROR(part.send(link, frame_bytes));
      }
    }
    return retransmit_rest(link, frame_bytes);
  }

 private:
  struct Thread {
    std::vector<GradientPart> parts;        // in the order of their clocks
    std::vector<wire::StepReport> reports;  // likewise
    std::optional<Clock> granted;
    bool finished = false;
  };
  static void drop_below(Thread& thread, Clock clock);
  Status retransmit_rest(ServerLink& link, std::int64_t frame_bytes) const;

  const bool granted_ahead_;
  std::vector<Thread> threads_;
  std::shared_ptr<const std::vector<float>> initial_;
  bool ready_ = false;
  std::vector<wire::Body> at_start_;             // to the authority
  std::shared_ptr<const RunState> final_state_;  // likewise
  std::optional<wire::Evaluate> asked_;
  std::optional<wire::EvaluationReport> evaluated_;
  std::optional<wire::NodeReport> done_;
};

}  // namespace paceline
