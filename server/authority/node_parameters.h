// NodeParameters: the parameters of an all-reduce, which its nodes hold: which of them are asked to send them to the
// shard, for a checkpoint or the final model, and which keep a version that will be evaluated.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"
#include "server/authority/evaluation.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_record.h"

namespace paceline::server {

// Whether they hold them.
inline bool nodes_hold_parameters(const RunConfig& config) {
  return config.exchange.kind == ExchangeKind::kAllreduce;
}

class NodeParameters {
 public:
  // All outlive this.
  NodeParameters(const RunConfig& config, const RunMembers& members, RunOutbox& outbox);

  // For a checkpoint: of those that have it, or of each node its part.
  void ask(Version version);
  // The node that will be asked to evaluate it, unless it is at once, keeps it: the lowest, which is the same
  // throughout. And those that have the other stages, which give it theirs.
  void keep(Version version, const EvaluationSchedule& evaluations);
  // The node may not have heard of what it is to keep.
  void keep_again(NodeId node, const EvaluationSchedule& evaluations);

  // Whom the shard has them from.
  std::vector<NodeId> senders() const;
  // Of those, who has not sent the last ones whole, as far as is known: a node's report follows them.
  std::vector<NodeId> owing(const RunRecord& record) const;

  // Not OK: what the shard lacks of the last ones will not come. Nobody is left; or, where each has a part, all who are
  // left have sent theirs, and what they keep of others: of two that are lost one kept the other's.
  Status lost(const RunRecord& record) const;

  // The shard has them, of that version.
  void came(Version version) { here_ = version; }
  bool are_here(Version version) const { return here_ == version; }
  // Has the last ones sent; false: nobody can. Node 0 sends them by itself; where it is not there any more the lowest
  // is asked, once.
  // Where each has a part, each sends it, and with it what it keeps of another's: so one of them may be lost meanwhile.
  bool ask_for_last(Version last);
  // Whether the last ones are asked of that node, in the place of node 0, and are not here.
  bool is_asked(NodeId node, Version last) const {
    return last_asked_ != NodeId(0) && node == last_asked_ && !are_here(last);
  }
  // It may not have heard that, or not have been heard.
  void request_again(NodeId node, Version last);
  // `node` is lost at the end. Whether what the shard still lacks of them is lost with it; others are asked for it.
  bool on_loss_at_end(NodeId node, Version last);

 private:
  // Those that have all of them: the lowest; of stages as many. (None of those is lost while the others go on.)
  std::vector<NodeId> first_group() const;

  const RunConfig& config_;
  const RunMembers& members_;
  RunOutbox& outbox_;
  Version here_ = kNoVersion;
  NodeId last_asked_{0};
  int lost_at_end_ = 0;  // before the last ones were there
};

}  // namespace paceline::server
