// UncommittedOutputs: what a follower's shard would have said to the authority, and the one that serves is not known to
// have said. Both come to the same from the same events, but not at the same moment: the one that serves may
// have to wait for replies to leave (ShardService). Where it is gone its follower says what is left.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/hex.h"
#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::server {

class UncommittedOutputs {
 public:
  // What both have said of their own file of the same version.
  struct BothSaved {
    wire::Saved here;
    wire::Saved there;  // of the one that serves
    // A file is a function of the shard's state. Errors: kDataLoss the two are not the same.
    Status compare() const {
      if (!here.fault.empty() || !there.fault.empty() || here.digest == there.digest) return Status::ok();
      const auto text = [](const FileDigest& file) {
        return std::to_string(file.bytes) + " bytes with checksum " + hex(file.checksum);
      };
      return data_loss("of version " + to_string(here.version) + " of shard " + to_string(here.shard) +
                       " its file has " + text(here.digest) + ", that of the one that serves " +
                       text(there.digest));
    }
  };

  // The follower's shard has come to this output. Of the rest it sends what time has led to, not events.
  std::optional<BothSaved> add(wire::Message message) {
    if (!counts(message.body)) return std::nullopt;
    const auto sent = erase(sent_, message.body);
    if (sent) return both_saved(message, *sent);
    uncommitted_.push_back(std::move(message));
    return std::nullopt;
  }
  // The one that serves has sent it.
  std::optional<BothSaved> on_primary_sent(const wire::Message& message) {
    if (!counts(message.body)) return std::nullopt;
    const auto own = erase(uncommitted_, message.body);
    if (own) return both_saved(*own, message);
    sent_.push_back(message);
    return std::nullopt;
  }
  // This one has taken over, and its shard comes only now to what the one before it had sent.
  std::optional<BothSaved> add_late(const wire::Message& message) {
    if (!std::holds_alternative<wire::Saved>(message.body)) return std::nullopt;
    const auto sent = erase(sent_, message.body);
    return sent ? both_saved(message, *sent) : std::nullopt;
  }
  // Of a lost node nothing counts any more.
  void forget(NodeId node) {
    const auto is_its = [node](const wire::Message& each) {
      const auto* arrived = std::get_if<wire::GradientArrived>(&each.body);
      return arrived != nullptr && arrived->worker.node == node;
    };
    std::erase_if(uncommitted_, is_its);
    std::erase_if(sent_, is_its);
  }
  std::vector<wire::Message> take() { return std::exchange(uncommitted_, {}); }
  // Of both kinds: for tests.
  std::size_t size() const { return uncommitted_.size() + sent_.size(); }

 private:
  static bool counts(const wire::Body& body) {
    return std::holds_alternative<wire::GradientArrived>(body) ||
           std::holds_alternative<wire::ShardReady>(body) || std::holds_alternative<wire::Saved>(body) ||
           std::holds_alternative<wire::Parameters>(body) || std::holds_alternative<wire::ShardReport>(body);
  }
  // Counts and the like are each process's own; digests are compared once they are paired.
  static bool same(const wire::Body& a, const wire::Body& b) {
    if (a.index() != b.index()) return false;
    if (const auto* x = std::get_if<wire::GradientArrived>(&a)) {
      const auto& y = std::get<wire::GradientArrived>(b);
      return x->worker == y.worker && x->clock == y.clock;
    }
    if (const auto* x = std::get_if<wire::Saved>(&a)) return x->version == std::get<wire::Saved>(b).version;
    if (const auto* x = std::get_if<wire::Parameters>(&a)) {
      const auto& y = std::get<wire::Parameters>(b);
      return x->request == y.request && x->offset == y.offset;
    }
    return true;
  }
  static std::optional<wire::Message> erase(std::vector<wire::Message>& from, const wire::Body& body) {
    const auto found = std::find_if(from.begin(), from.end(),
                                    [&](const wire::Message& each) { return same(each.body, body); });
    if (found == from.end()) return std::nullopt;
    wire::Message erased = std::move(*found);
    from.erase(found);
    return erased;
  }
  static std::optional<BothSaved> both_saved(const wire::Message& here, const wire::Message& there) {
    const auto* own = std::get_if<wire::Saved>(&here.body);
    if (own == nullptr) return std::nullopt;
    return BothSaved{*own, std::get<wire::Saved>(there.body)};
  }

  std::vector<wire::Message> uncommitted_;  // by the one that serves, in order
  std::vector<wire::Message> sent_;         // by it, and the follower has not come to it yet
};

}  // namespace paceline::server
