// ReplicaState: what one replica of a shard has of the run, which follows from the events alone: the shard's
// real GradientStore and counts, at shard 0 the real Engine and its checker, and who is in the run. The one
// that serves and the one that follows give it the same events; what it comes to say is the affair of whoever
// has it (server_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/authority_model.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/shard_model.h"

namespace paceline::test {

class ReplicaState {
 public:
  using Gradient = std::pair<WorkerId, Clock>;
  struct Handlers {
    // The authority's: a node, and another shard than its own.
    std::function<void(NodeId, const wire::Message&)> node;
    std::function<void(ShardId, const wire::Message&)> shard;
    std::function<void(const wire::Message&)> authority;  // the shard's
    std::function<void(const wire::Message&)> discards;   // whoever asks what became of a gradient
    std::function<void(NodeId)> forgets;                  // its shard was told that the node is lost
  };
  ReplicaState(ShardId shard, const RunPlan& plan, std::int64_t clocks, Network& network,
               Violations& violations, Handlers handlers);

  // `event.logged` says what it is and when.
  void apply(const wire::Message& event);

  ShardId shard() const { return shard_; }
  ShardModel& model() { return model_; }
  const ShardModel& model() const { return model_; }
  // Shard 0's.
  AuthorityModel& authority() { return *authority_; }
  bool over() const { return authority_ && authority_->engine().finished(); }
  // How many the authority has made, as far as this shard knows.
  std::int64_t decisions() const { return authority_ ? authority_->decisions() : model_.decisions(); }

  // Who is here: which process of it, whether or not it has gone.
  const std::map<NodeId, Party>& here() const { return here_; }
  bool is_here(NodeId node, Party who) const {
    const auto found = here_.find(node);
    return found != here_.end() && found->second == who;
  }
  bool has_gone(Party who) const { return gone_.contains(who); }

  // For the checkers: of the authority what it has granted (by iteration), whom it has told that he has
  // finished, and what it has discarded; of the shard what it has had whole.
  const std::map<Gradient, std::int64_t>& granted() const { return granted_; }
  const std::set<WorkerId>& finished() const { return finished_; }
  const std::set<Gradient>& discarded() const { return discarded_; }
  const std::set<Gradient>& whole() const { return whole_; }
  // Of each version that was to be saved, the shards whose files are written.
  const std::map<Version, std::set<ShardId>>& saved() const { return saved_; }

 private:
  AuthorityModel::Handlers handlers_of_authority();
  bool saves(const AuthorityModel& authority);
  void instruct(WorkerId worker, const AuthorityModel::Instruction& what);
  void admit(NodeId node, Party who, Ticks at);
  void goes_on(NodeId node);
  void takes(const wire::Push& push, const wire::Payload& payload);
  void shard_receives(const wire::Message& message);
  void authority_receives(const wire::Message& message, Ticks at);
  void local_event(const wire::Message& event, Ticks at);
  void lose(NodeId node, Ticks at);
  void refuse(NodeId node, const std::string& why);
  void to_shards(const wire::Message& message);

  const ShardId shard_;
  const RunPlan& plan_;
  Violations& violations_;
  Handlers handlers_;
  ShardModel model_;
  std::optional<AuthorityModel> authority_;
  std::map<NodeId, Party> here_;
  std::set<Party> gone_, too_late_;
  std::map<Gradient, std::int64_t> granted_;
  std::set<WorkerId> finished_;
  std::set<Gradient> discarded_, whole_;
  std::map<Version, std::set<ShardId>> saved_;
  std::map<Version, FileDigest> digests_;
};

}  // namespace paceline::test
