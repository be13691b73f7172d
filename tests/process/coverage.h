// Coverage: what a range of random schedules has really run: counted from the configuration with which each
// run was made and the summary that it left, not from what the seeds were to draw. What has never come is
// named:
//
//   sent over tcp, sent over ipc, lent over tcp, lent over ipc     lent: payloads in shared memory
//   sent over tcp, gradients fp16 ... lent, parameters bf16        each encoding on each way
//   lent, and heard                                                by some shards; grants are judged, too
//   refreshes ahead, refreshes after                              of gradients that are applied on arrival
//   versioned mean, then eager ...                                 a switch that turns eager
//   hidden exchange, versioned ...                                 with grants ahead that were heard
//   fragments: lent, eager, threads, shards ...            hidden exchange in fragments that left in mid-round
//   ssp eager on 2 shards ...                                      each way to synchronise (random_run.h)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/config/names.h"
#include "common/config/run_config.h"
#include "common/report/run_summary.h"
#include "tests/process/random_run.h"
#include "tests/process/transport.h"

namespace paceline::testing {

class Coverage {
 public:
  Coverage() {
    for (const auto& [policy, apply] : kWays) {
      for (std::uint32_t shards = 1; shards <= kShardsMax; ++shards)
        synchronised_[name(policy, apply, shards)];
    }
    for (const CombineMode combine : {CombineMode::kMean, CombineMode::kEach}) in_detail_[turning(combine)];
    for (const auto& [policy, apply] : kWays) {
      SyncSection sync;
      sync.policy = policy;
      sync.apply = apply;
      in_detail_[local_steps(sync)];
    }
    for (const ApplyMode apply : {ApplyMode::kVersioned, ApplyMode::kEager}) in_detail_[hidden(apply)];
    for (unsigned which = 0; which < 16; ++which) {
      fragments_[fragments((which & 1) != 0, (which & 2) != 0, (which & 4) != 0, (which & 8) != 0)];
    }
    for (const PullOrder order : {PullOrder::kBeforePush, PullOrder::kAfterPush})
      refreshed_[refreshes(order)];
    for (const char* const way : {"sent over tcp", "sent over ipc", "lent"}) {
      for (const Encoding e : kExactEncodings) {
        in_detail_[way + gradients(e)];
        if (e != Encoding::kTopK) in_detail_[way + parameters(e)];
      }
    }
  }

  // Lent by other shards than the authority's, whose grants are heard (random_run.h).
  static constexpr const char* kObserved = "lent, and heard";

  // A run of `config`, its endpoints as they were drawn, has come to its end. Thread: any.
  // `grants_ahead`: how many of its grants were heard to come ahead of the report of the iteration before.
  void count(const RunConfig& config, const RunSummary& summary, std::int64_t grants_ahead = 0) {
    const bool lent = summary.bytes_shared > 0;
    const std::string over = over_tcp(config) ? " over tcp" : " over ipc";
    const std::string way = lent ? "lent" : "sent" + over;
    const std::lock_guard lock(mutex_);
    ++runs_;
    ++transported_[(lent ? "lent" : "sent") + over];
    ++in_detail_[way + gradients(config.cluster.gradient_encoding)];
    ++in_detail_[way + parameters(config.cluster.parameter_encoding)];
    if (lent && config.cluster.shared_memory == SharedMemory::kAuto) ++in_detail_[kObserved];
    if (config.sync.pull_order != PullOrder::kAuto && config.sync.refresh_clocks) {
      ++refreshed_[refreshes(config.sync.pull_order)];
    }
    if (config.train.local_steps > 1) ++in_detail_[local_steps(config.sync)];
    if (grants_ahead > 0) ++in_detail_[hidden(config.sync.apply)];
    if (config.exchange.fragments > 1 && summary.bytes_pushed_early > 0) {
      ++fragments_[fragments(lent, config.sync.apply == ApplyMode::kEager,
                             config.cluster.threads_per_node > 1, config.cluster.shards > 1)];
    }
    if (turns_eager(config.sync)) ++in_detail_[turning(config.sync.combine)];
    ++synchronised_[name(config.sync.policy, config.sync.apply, config.cluster.shards)];
  }

  // What should have come and never has. Of few runs little is asked: a range of them need not draw all.
  std::vector<std::string> missing() const {
    std::vector<std::string> found = missing_fragments();
    ask_for_all(synchronised_, static_cast<std::int64_t>(kCombinations), found);
    ask_for_all(transported_, 40, found);
    ask_for_all(refreshed_, 40, found);
    ask_for_all(in_detail_, 250, found);
    return found;
  }
  // How many of the sixteen ways of hidden exchanges in fragments have come. One run in seven is one.
  std::ptrdiff_t ways_in_fragments() const {
    return std::ranges::count_if(fragments_, [](const auto& way) { return way.second > 0; });
  }
  // Of what is missing, these.
  std::vector<std::string> missing_fragments() const {
    std::vector<std::string> found;
    ask_for_all(fragments_, 280, found);
    return found;
  }

  std::string to_string() const {
    std::string all = std::to_string(runs_) + " runs";
    for (const auto* const times : {&transported_, &refreshed_, &in_detail_, &fragments_}) {
      for (const auto& [what, count] : *times) all += "; " + what + " " + std::to_string(count);
    }
    return all;
  }

 private:
  using Times = std::map<std::string, std::int64_t>;
  void ask_for_all(const Times& times, std::int64_t runs_min, std::vector<std::string>& missing) const {
    for (const auto& [what, count] : times) {
      if (runs_ >= runs_min && count == 0) missing.push_back(what);
    }
  }
  static std::string fragments(bool lent, bool eager, bool threads, bool shards) {
    return std::string("fragments: ") + (lent ? "lent" : "sent") + (eager ? ", eager" : ", versioned") +
           (threads ? ", threads" : ", one thread") + (shards ? ", shards" : ", one shard");
  }
  static std::string local_steps(const SyncSection& sync) {
    return std::string("local steps under ") + name_of(sync.policy) + " " + name_of(sync.apply);
  }
  static std::string hidden(ApplyMode apply) { return std::string("hidden exchange, ") + name_of(apply); }
  static std::string turning(CombineMode combine) {
    return std::string("versioned ") + name_of(combine) + ", then eager";
  }
  static std::string refreshes(PullOrder order) { return std::string("refreshes ") + name_of(order); }
  static std::string gradients(Encoding e) { return std::string(", gradients ") + name_of(e); }
  static std::string parameters(Encoding e) { return std::string(", parameters ") + name_of(e); }
  static std::string name(PolicyKind policy, ApplyMode apply, std::uint32_t shards) {
    return std::string(name_of(policy)) + (apply == ApplyMode::kEager ? " eager" : " versioned") + " on " +
           std::to_string(shards) + " shards";
  }

  std::mutex mutex_;
  std::int64_t runs_ = 0;
  Times transported_{{"sent over tcp", 0}, {"sent over ipc", 0}, {"lent over tcp", 0}, {"lent over ipc", 0}};
  Times refreshed_;  // made by the constructor
  Times in_detail_{{kObserved, 0}};
  Times synchronised_;
  Times fragments_;
};

}  // namespace paceline::testing
