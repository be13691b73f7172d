// LocalExchange: an exchange without any other process. The parameters lie here, an optimizer's step leads from
// one state to the next, and a thread that asks for parameters has them in its process cache at once, or as
// soon as the version exists. What is applied, and in which order, its coordinator says (local_coordinator.h):
// the same decisions as those of servers, and so the same bits (tests/unit/local_run_test.cc).
//
//   push -> held here -> on_arrival -> LocalCoordinator -> apply() -> pulls that wait are answered
//
// Thread: any. Memory: parameters at most three times (the state, what the process cache has of an older one,
// and one that is copied from), the optimizer's state, and the gradients that wait for their turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/sync/actions.h"
#include "worker/cache/process_cache.h"
#include "worker/exchange/exchange.h"

namespace paceline {

class LocalExchange final : public Exchange {
 public:
  // A gradient is here whole; `fault`: what of it is not finite, or empty.
  using OnArrival = std::function<void(WorkerId, Clock, std::int64_t samples, const std::string& fault)>;

  // `config`: of one node and one shard, everything in fp32, nothing that servers alone do. `initial`:
  // layout.size() floats. Parameters go to `cache`, whose only range is all of them. All but `initial` outlives it.
  // `now`: what time it is, any thread.
  LocalExchange(const RunConfig& config, const Layout& layout, std::span<const float> initial,
                ProcessCache& cache, Ticks (*now)());

  // Who is told of gradients, by the thread that pushes. Before the first push.
  void on_arrival(OnArrival notify) { on_arrival_ = std::move(notify); }

  // ---- for training threads (worker/exchange/exchange.h)
  void push(Contribution gradient) override;
  Ticket request_parameters(Version min_version) override;
  Result<Ticks> await_parameters(Ticket ticket, ParameterSink& sink) override;
  std::optional<Ticks> parameters_installed(Ticket ticket) override;

  // ---- for the coordinator
  // Applies the gradients that it names, which are here, with this learning rate.
  void apply(const sync::Apply& decision, double learning_rate);
  // Drops what is here of that gradient.
  void discard(WorkerId worker, Clock clock);
  // Releases every waiter, now and later, with `why` (not OK). The first close counts.
  void close(Status why);

  // The parameters as they are.
  std::vector<float> parameters() const;
  Version version() const;

 private:
  struct Pull {
    Version min_version;
    std::optional<Ticks> installed;
  };
  static constexpr std::size_t kPullsKept = 64;

  void apply_each(const sync::Apply& decision, double learning_rate);
  void apply_mean(const sync::Apply& decision, double learning_rate);
  void answer(Pull& pull);

  const OptimizerSection settings_;
  const Layout& layout_;
  ProcessCache& cache_;
  Ticks (*const now_)();
  OnArrival on_arrival_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  BlockPool pool_;
  BlockRange parameters_;  // in one block
  OptimizerState optimizer_;
  std::vector<float> sum_;   // combine: mean
  cache::SliceStamp stamp_;  // of the parameters
  std::map<std::pair<WorkerId, Clock>, SharedFloats> gradients_;
  std::map<Ticket, Pull> pulls_;
  Ticket last_ticket_ = 0;
  Status closed_;
};

}  // namespace paceline
