// GuaranteeChecker: what docs/SYNC.md promises (What a worker sees), checked on every single read of the
// counting model (counting_task.h), from the outside: it knows the configuration, what each step was granted
// and the vector it computed with, and nothing of the engine or the caches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/report/run_summary.h"
#include "common/task/task.h"
#include "tests/process/counting_task.h"

namespace paceline::testing {

// Of fragments that leave in mid-round (exchange.fragments): the part of a round's local steps after the place at
// which this element of so many leaves. So much of its last gradient is in the next one.
float behind_place(const RunConfig& config, std::size_t element, std::size_t elements);

// Thread: on_read() from any training thread; the rest before or after the run.
class GuaranteeChecker {
 public:
  explicit GuaranteeChecker(const RunConfig& config);

  // A step is about to compute with what it read.
  void on_read(const Read& read);
  // From here on the workers of this node may be missing: they left or died.
  void node_goes(NodeId node) { gone_[node.value]->store(true); }
  // The workers of this node run in another process: `begun(rank)` says how many steps one has begun.
  void node_is_elsewhere(NodeId node, std::function<std::int64_t(std::uint32_t rank)> begun);
  // The run is over with this model; `blocks` rows.
  void on_end(const RunSummary& summary, std::span<const float> model, std::int64_t blocks);

  // Every violation, as a sentence; empty when all guarantees held.
  std::vector<std::string> violations() const;
  std::int64_t reads() const { return reads_.load(); }

 private:
  float behind_place(std::size_t element, std::size_t elements) const {
    return testing::behind_place(config_, element, elements);
  }
  std::int64_t granted_ahead() const { return config_.exchange.hidden ? 2 : 1; }  // and not begun, at most
  void report(std::string what);
  bool anybody_gone() const;
  bool is_gone(std::uint32_t rank) const { return gone_[cluster_.worker_at(Rank(rank)).node.value]->load(); }
  std::int64_t begun(std::uint32_t rank) const;
  // How many iterations worker r is certain to do unless it goes; -1 when nobody knows (share: pool).
  std::int64_t share_of(std::uint32_t rank) const;
  // Whether all that those who are gone left is certain to have been done by the others.
  bool is_made_up_for() const;

  const RunConfig config_;
  const Cluster cluster_;
  const bool mean_;
  std::vector<std::unique_ptr<std::atomic<std::int64_t>>> entered_;  // by rank: steps begun
  std::vector<std::unique_ptr<std::atomic<bool>>> gone_;             // by node
  std::optional<NodeId> elsewhere_;
  std::function<std::int64_t(std::uint32_t)> begun_elsewhere_;
  std::vector<std::vector<float>> last_read_;  // by rank; that worker's thread only
  std::atomic<std::int64_t> reads_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> violations_;
};

}  // namespace paceline::testing
