// One generation of servers, and all who come to it: a simulated run from its begin, or from a checkpoint, to
// its end, or until the servers die.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/authority_model.h"
#include "tests/sim/checkpoint.h"
#include "tests/sim/network.h"
#include "tests/sim/node_model.h"
#include "tests/sim/shard_line.h"
#include "tests/sim/shard_model.h"
#include "tests/sim/world.h"

namespace paceline::test {

class Generation {
 public:
  // The `number`th, from 0. `from`: what it is resumed from, which is valid (validate()); null: it begins.
  Generation(const RunPlan& plan, std::uint32_t number, const Checkpoint* from, Violations& violations);

  void run();

  // The servers are gone, and so is whoever was connected to them.
  bool has_crashed() const { return crashed_; }
  std::shared_ptr<const Checkpoint> last_checkpoint() const { return saved_; }

  Traffic traffic() const { return {surroundings_.pulls, surroundings_.server_reads}; }
  Faults faults() const;

 private:
  NodeModel& node_at(NodeId node) { return *incarnations_[node.value].back(); }
  void check_end();

  // ---- who says what to whom (generation_messages.cc)
  AuthorityModel::Handlers handlers();
  void to_node(WorkerId worker, const AuthorityModel::Instruction& what);
  // The authority's own is in its process.
  void to_shards(const wire::Message& message);
  void shard_receives(ShardId shard, const wire::Message& message);
  void to_authority(ShardId from, const wire::Message& message);
  void authority_receives(const wire::Message& message);
  void receives(NodeModel& from, ShardId server, const wire::Message& message);
  void takes(ShardId shard, const wire::Push& push, const wire::Payload& payload);
  bool chance(double of) { return of > 0.0 && network_.random().next_double() < of; }

  // ---- checkpoints, and the crash of the servers (generation_saves.cc)
  // One is under way at a time.
  bool saves(const AuthorityModel& authority);
  void complete_save();
  // Of the whole run, those before this generation included.
  std::set<std::int64_t> iterations_in(const Counts& counts);
  // At once, or once there is something to go on from.
  void crash();

  // ---- who is there (generation.cc)
  void start(NodeId node);
  void begin();
  void begin_again();
  void join(NodeId node);
  void kill(NodeId node);
  void end(NodeModel& node);
  // The run is quiesced, and goes on a while after that.
  void quiesce();
  void go_on_later();
  // Which is noticed within a lease.
  void has_ended(const NodeModel& node);
  // Of an incarnation that another has followed nothing more is lost.
  void lose(NodeId node, Party incarnation);
  // Another incarnation, once each shard has heard of the loss of the one before.
  void come_back(NodeId node);

  // ---- connections that break (generation_cuts.cc)
  void begin(const LinkCut& cut);
  void begin_between_servers(const LinkCut& cut);
  void cut_off(NodeId id, ShardId server, std::int64_t for_ns);
  void watch(NodeModel& node, ShardId server);
  // The server has not heard of it for a lease.
  void miss(NodeModel& node, ShardId server);
  void join_again(NodeModel& node, ShardId server);

  const RunPlan& plan_;
  const std::uint32_t generation_;
  const Checkpoint* const from_;  // null: it is the first
  Violations& violations_;
  Network network_;
  AuthorityModel authority_;
  std::vector<std::unique_ptr<ShardModel>> shards_;
  std::vector<std::unique_ptr<ShardLine>> lines_;
  Surroundings surroundings_;
  std::vector<std::vector<std::unique_ptr<NodeModel>>> incarnations_;  // by node; the last one is there
  std::set<NodeId> joined_, returned_;
  std::set<Party> refused_, lost_by_lease_;  // incarnations that are lost
  std::vector<std::set<Party>> unknown_;     // by shard: of whose loss it has heard
  std::map<std::pair<Party, ShardId>, std::int64_t> missed_since_, cut_until_;
  std::map<std::pair<WorkerId, Clock>, std::int64_t> granted_;  // iterations, by the stamp of their gradient
  std::shared_ptr<Checkpoint> being_saved_;
  std::vector<std::shared_ptr<const Counts>> images_;  // by shard: of it
  std::size_t parts_saved_ = 0;
  std::shared_ptr<const Checkpoint> saved_;
  bool crashed_ = false;
  Faults faults_;
};

}  // namespace paceline::test
