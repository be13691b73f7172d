// A simulated server: one shard, its loop and its replies. The loop does one thing after another, as the
// daemon's does: it takes messages (costs.message each), applies decisions (costs.apply for each float of
// each gradient), and sends. Shard 0's loop is the authority's, too.
//
// Which state a pull is answered with follows server/store/reply_window.h: while an older state than the current
// one is on its way out in replies, a pull joins it, is told that its node can go on, or waits until it has
// left. Here are its stamps; in training mode the numbers move along (training.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/sync/actions.h"
#include "simulate/applied_clocks.h"
#include "simulate/events.h"
#include "simulate/network.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/training.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {

// What a server's one thread is busy with: a message waits for those that came before.
class Loop {
 public:
  // Takes `cost` of its time, from `now` or when it is free; returns when that is over.
  Ticks take(std::chrono::nanoseconds cost, Ticks now) { return free_ = after(std::max(free_, now), cost); }

 private:
  Ticks free_;
};

// Thread: one.
class Server {
 public:
  // `training`: nullptr in timing mode.
  Server(ShardId id, const Plan& plan, Events& events, Network& network, Pulls& pulls, Training* training);

  Loop& loop() { return loop_; }

  // A message has come: it is taken when the loop is free.
  void push_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void report_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void decision_arrives(std::uint32_t decision, std::size_t contributors, Ticks now);
  void pull_arrives(std::uint32_t pull, Ticks now);

  // The loop has got to it.
  void apply(const sync::Apply& decision, Ticks now);
  void take_pull(std::uint32_t pull, Ticks now);
  void reply_sent(std::uint32_t pull, Ticks now);

  // A reply has been read.
  void reply_delivered(Ticks now);
  // Nobody is answered there any more.
  void lose(NodeId node);
  // Another incarnation of it is there, which was not answered anything yet.
  void join(NodeId node);

  std::int64_t pulls_taken() const { return pulls_taken_; }
  std::int64_t bytes_pushed() const { return bytes_pushed_; }
  std::int64_t bytes_pulled() const { return bytes_pulled_; }

 private:
  struct State {
    Version version;
    Revision revision;
  };
  struct StateInReplies {
    State state;
    std::int64_t replies = 0;
    bool awaited = false;
  };
  // How long this shard takes to apply so many gradients.
  std::chrono::nanoseconds apply_time(std::size_t contributors) const;
  enum class Answer { kParameters, kUnchanged, kLater };
  struct Source {
    Answer answer = Answer::kLater;
    State state;
  };
  Source source(const Pull& pull);
  bool will_do(const State& held, const Pull& pull) const;
  bool answer(std::uint32_t pull, Ticks now);
  void answer_ready(Ticks now);
  void stamp(cache::SliceStamp& stamp, NodeId node, const State& state) const;
  void confirm(NodeId node, const State& state);

  const ShardId id_;
  const Plan& plan_;
  Events& events_;
  Network& network_;
  Pulls& pulls_;
  Training* const training_;
  Loop loop_;
  Version version_;
  Revision revision_;
  AppliedClocks applied_;
  std::optional<StateInReplies> in_replies_;
  std::vector<State> answered_;         // by node: the newest that it was answered with
  std::vector<std::uint32_t> waiting_;  // pulls
  std::vector<std::uint32_t> retried_;
  std::int64_t pulls_taken_ = 0;
  std::int64_t bytes_pushed_ = 0;
  std::int64_t bytes_pulled_ = 0;
};

}  // namespace paceline::simulate
