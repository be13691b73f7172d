// A simulated shard: its real GradientStore holds gradients until the authority has them applied or
// discarded; it answers pulls from its own counts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/wire/messages.h"
#include "server/store/gradient_store.h"
#include "tests/sim/counting.h"

namespace paceline::test {

// One shard's answer to a pull.
struct SliceAnswer {
  cache::SliceStamp stamp;  // applied clocks of all workers of the asking node
  std::shared_ptr<const Counts> counts;
};

class ShardModel {
 public:
  // Of a run that is resumed it counts what came after `version` and `revision`.
  ShardModel(ShardId id, Cluster cluster, std::int64_t clocks, Violations& violations,
             Version version = Version(0), Revision revision = Revision(0));

  // What it has to say when a gradient has come whole: it is held now, or dropped where it was discarded
  // before. What was whole before is dropped uncommitted.
  std::optional<wire::GradientArrived> takes(const wire::Push& push, const wire::Payload& payload);

  // What the authority says.
  void receives(const wire::Message& message);
  // The node's connection broke, and it goes on over another one: what was not whole comes again from its
  // begin, and it asks again for what it has not been answered.
  void reconnected(NodeId node);
  void pull(NodeId node, Version min_version, std::function<void(SliceAnswer)> answer);

  // At the end: nothing may be held any more.
  void check_empty() const;
  const Counts& counts() const { return *counts_; }
  Revision revision() const { return revision_; }
  // How many it was told.
  std::int64_t decisions() const { return next_decision_; }
  // What a checkpoint takes: it does not change any more.
  std::shared_ptr<const Counts> image() const { return counts_; }

 private:
  struct WaitingPull {
    NodeId node;
    Version min_version;
    std::function<void(SliceAnswer)> answer;
  };
  void apply(const wire::ApplyDecision& decision);
  SliceAnswer answer_for(NodeId node) const;
  void violation(const std::string& what) const;

  ShardId id_;
  Cluster cluster_;
  Violations& violations_;
  std::shared_ptr<Counts> counts_;
  std::vector<Clock> applied_;  // by rank
  Version version_;
  Revision revision_;
  std::int64_t next_decision_ = 0;
  server::GradientStore gradients_;
  std::vector<WaitingPull> waiting_;
};

}  // namespace paceline::test
