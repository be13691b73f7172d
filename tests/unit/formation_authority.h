// What the authority does for all-reduces, in a run without one: nodes meet in formations by its rule
// (server/authority/formations.h), and their steps are counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/authority/formations.h"
#include "worker/allreduce/allreduce_exchange.h"

namespace paceline::testing {

// Thread: any, but begins() to ends() of a node by its own.
class FormationAuthority {
 public:
  explicit FormationAuthority(std::uint32_t nodes) : formations_(nodes), exchanges_(nodes), newest_() {
    for (std::uint32_t node = 0; node < nodes; ++node) live_.insert(node);
  }

  // The first formation, and the next ones. Errors: the node is lost.
  Result<AllReduceExchange::Meeting> meet(std::uint32_t node, const AllReduceExchange::Parting& parting) {
    auto listening = mesh::listen_at("127.0.0.1");
    if (!listening.is_ok()) return listening.status();
    std::unique_lock lock(mutex_);
    if (parting.lost && !closed_.contains(parting.lost->value)) blamed_ = parting.lost;
    if (parting.formation == formations_.number() && live_.contains(node) && !closed_.contains(node)) {
      end_formation(parting.why);
      formations_.set_endpoint(NodeId(node), listening->endpoint, parting.version);
      form();
    }
    const bool met = changed_.wait_for(
        lock, kHangs, [&] { return closed_.contains(node) || newest_.number > parting.formation; });
    if (!met)
      return deadline_exceeded("node " + std::to_string(node) + " hangs: no formation after " +
                               std::to_string(parting.formation));
    if (closed_.contains(node)) return aborted("this node is closed");
    AllReduceExchange::Meeting meeting{newest_.number, std::move(listening).value(), {}, newest_.version, {}};
    meeting.place.token = newest_.number;
    for (std::uint32_t n = 0; n < newest_.endpoints.size(); ++n) {
      if (newest_.endpoints[n].empty()) continue;
      const auto rank = static_cast<std::uint32_t>(meeting.place.nodes.size());
      if (n == node) meeting.place.rank = rank;
      if (newest_.holder == NodeId(n)) meeting.holder = rank;
      meeting.place.nodes.emplace_back(n);
      meeting.place.endpoints.push_back(newest_.endpoints[n]);
    }
    return meeting;
  }

  void begins(std::uint32_t node, AllReduceExchange& exchange) {
    const std::lock_guard lock(mutex_);
    exchanges_[node] = &exchange;
  }
  void break_up() {
    const std::lock_guard lock(mutex_);
    end_formation("it is broken up");
  }
  // It waits here for nothing any more.
  void closes(std::uint32_t node) {
    const std::lock_guard lock(mutex_);
    closed_.insert(node);
    changed_.notify_all();
  }
  // After this nobody calls its exchange.
  void lost(std::uint32_t node) {
    const std::lock_guard lock(mutex_);
    live_.erase(node);
    formations_.forget(NodeId(node));
    exchanges_[node] = nullptr;
    lost_in_step_.insert(node);
    end_formation("node " + std::to_string(node) + " is lost");
    take_step();
    form();
    changed_.notify_all();
  }
  void ends(std::uint32_t node) {
    const std::lock_guard lock(mutex_);
    exchanges_[node] = nullptr;
  }
  // Returns once all that live have reported that clock; false: it hangs.
  bool report(std::uint32_t node, std::int64_t clock) {
    std::unique_lock lock(mutex_);
    reported_.insert(node);
    take_step();
    return changed_.wait_for(lock, kHangs, [&] { return version_ > clock; });
  }
  // Of each step, whose gradients are in it.
  std::vector<std::set<std::uint32_t>> in_steps() const { return in_steps_; }
  std::uint32_t formations() const { return formations_.number(); }
  // Who was taken for lost and was not.
  std::optional<NodeId> blamed() const { return blamed_; }
  bool was_given() const { return given_; }
  bool was_made_again() const { return made_again_; }

 private:
  static constexpr std::chrono::seconds kHangs{60};  // nothing here takes a second

  void end_formation(const std::string& why) {
    if (formations_.gathers()) return;
    formations_.end();
    for (const std::uint32_t node : live_) {
      if (exchanges_[node] != nullptr) exchanges_[node]->leave(formations_.number(), why);
    }
  }
  void form() {
    std::vector<NodeId> here;
    for (const std::uint32_t node : live_) here.emplace_back(node);
    if (formations_.number() == 0 && here.size() < exchanges_.size()) return;
    const auto next = formations_.next(here, Version(version_));
    if (!next) return;
    newest_ = *next;
    given_ = given_ || next->holder;
    made_again_ = made_again_ || (next->number > 1 && next->version == Version(version_));
    changed_.notify_all();
  }
  void take_step() {
    if (!std::includes(reported_.begin(), reported_.end(), live_.begin(), live_.end())) return;
    std::set<std::uint32_t> in_step = live_;
    for (const std::uint32_t node : std::exchange(lost_in_step_, {})) {
      if (formations_.is_in_sum(NodeId(node))) in_step.insert(node);
    }
    in_steps_.push_back(in_step);
    reported_.clear();
    ++version_;
    std::vector<NodeId> here;
    for (const std::uint32_t node : live_) here.emplace_back(node);
    formations_.stepped(here);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  server::Formations formations_;
  std::set<std::uint32_t> live_;
  std::vector<AllReduceExchange*> exchanges_;  // by node, while it can be told to leave
  server::Formation newest_;
  std::int64_t version_ = 0;
  std::set<std::uint32_t> reported_;  // of the step under way
  std::set<std::uint32_t> lost_in_step_;
  std::set<std::uint32_t> closed_;
  std::optional<NodeId> blamed_;
  std::vector<std::set<std::uint32_t>> in_steps_;
  bool given_ = false;
  bool made_again_ = false;
};

}  // namespace paceline::testing
