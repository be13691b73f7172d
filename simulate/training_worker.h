// A worker with its numbers: the real thread cache (worker/cache/thread_cache.h), what of its gradients has
// not been sent (worker/client/gradient_encoder.h), and the gradient it has in hand.
//
// Memory, in copies of the parameters: the thread cache 1, its optimizer's state (momentum 1, Adam 2) and
// what it keeps of own gradients (SGD 1 to 2, else 1 each), both only where the threshold
// may be above 0; 1 for the gradient, from its end until every shard has applied it, shared with the shards;
// with int8 or top_k 1 for what is owed; with local steps 1 and the inner optimizer's state; with fragments 2.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/task/task.h"
#include "simulate/plan.h"
#include "worker/cache/thread_cache.h"
#include "worker/client/gradient_encoder.h"
#include "worker/train/local_steps.h"

namespace paceline::simulate {

// Thread: one.
class TrainingWorker {
 public:
  // `ranges`: of the shards.
  TrainingWorker(const Plan& plan, WorkerId id, const std::vector<Range>& ranges, const Layout& layout);

  ThreadCache& cache() { return cache_; }

  // Computes the gradient of `step` with the thread cache's parameters, into a block of `gradients`; with local
  // steps takes it, and the last of them leaves the round's delta there. What is not finite of it, as it is
  // reported, is said in `fault`; it is dropped then. Errors: the task's.
  Result<Metric> compute(Task& task, const Step& step, const Layout& layout, BlockPool& gradients,
                         std::string& fault);
  // Between two local steps: makes the delta of the round's `n`-th fragment, from the parameters' end.
  void cut(std::int64_t n);
  // Applies it to the thread cache, as its grant says.
  void apply_locally(const wire::Grant& grant);

  // It leaves: in the frames that the shards will get. Then the worker holds no more of it than the thread
  // cache does.
  void send();
  // `shard` has got what is stamped `clock`: what it is, and its frames.
  wire::Push sent(ShardId shard, Clock clock) const {
    const Sent& sent = sent_.at(clock);
    wire::Push push = sent.push;
    push.computed_revision = sent.slices[shard.value];
    return push;
  }
  std::vector<EncodedFrame> take(ShardId shard, Clock clock) {
    return std::move(sent_.at(clock).frames[shard.value]);
  }

 private:
  const Plan& plan_;
  const RunConfig& config_;
  const std::vector<Range> ranges_;
  ThreadCache cache_;
  std::optional<LocalSteps> local_;
  std::shared_ptr<BlockRef> made_;  // what is computed into, in a round
  std::vector<float> beside_;       // a mini-batch's gradient, where parts of the delta are made before
  std::int64_t samples_ = 0;        // of the round so far
  std::optional<GradientEncoder> encoder_;  // none: as float32
  SharedFloats gradient_;
  struct Sent {
    wire::Push push;
    std::vector<Revision> slices;                   // by shard: the revision that it was computed with there
    std::vector<std::vector<EncodedFrame>> frames;  // by shard
  };
  Sent next_;  // what was computed last
  // What has left: the next one may while its own frames are on their way.
  std::map<Clock, Sent> sent_;
};

}  // namespace paceline::simulate
