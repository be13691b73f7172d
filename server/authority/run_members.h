// RunMembers: which nodes and shards take part in a run, as its authority has them: who has joined, is let in while
// training goes on, or has gone; whose process is which; and whom the start waits for.
//
// A resumed run waits for those who were there at the save (docs/RELIABILITY.md): is_awaited().
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/sync/engine_state.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"

namespace paceline::server {

class RunMembers {
 public:
  enum class NodeState : std::uint8_t {
    kAbsent,
    kJoining,  // let in while training goes on; not all servers have welcomed it yet
    kJoined,
    kGone,
  };
  // Of the process of a node that has joined last.
  struct Process {
    std::uint64_t incarnation = 0;
    bool takes_part = false;  // it, or a process before it, has, as far as these servers know
    bool took_part = false;   // or one of before the servers were resumed: then all were there at the start
    bool has_come = false;    // while training went on: its workers' clocks begin where they did then
  };
  struct ShardState {
    bool joined = false;
    bool ready = false;  // it has initial parameters, or has read its checkpoint
    bool reported = false;
  };

  // `resumed`: of a resumed run the workers as they were at the save, which outlive this; null: it begins.
  RunMembers(const RunConfig& config, const std::vector<sync::WorkerState>* resumed);

  NodeState& operator[](NodeId node) { return nodes_[node.value]; }
  NodeState operator[](NodeId node) const { return nodes_[node.value]; }
  Process& process(NodeId node) { return processes_[node.value]; }
  const Process& process(NodeId node) const { return processes_[node.value]; }
  ShardState& shard(ShardId shard) { return shards_[shard.value]; }
  const ShardState& shard(ShardId shard) const { return shards_[shard.value]; }
  bool is_known(NodeId node) const { return node.value < nodes_.size(); }

  // As a shard is told of the process that has joined last.
  wire::NodeAdmitted admitted(NodeId node) const { return {node, process(node).incarnation}; }

  // Those in `state`, by number.
  std::vector<NodeId> in(NodeState state) const;
  // Those who are in: joined, or coming.
  std::vector<NodeId> present() const;
  std::uint32_t joined() const;
  std::optional<NodeId> lowest() const;
  bool all_have_joined() const { return joined() == nodes_.size(); }
  bool shards_are_ready() const;
  bool shards_have_joined() const;
  bool shards_have_reported() const;

  // ---- the start
  bool enough_have_joined() const;
  // At the save: then whoever comes will do.
  bool nobody_was_there() const;
  bool is_awaited(NodeId node) const;
  // Or are known not to come any more. With nobody there at the save, of nodes that come and go: enough have joined, or
  // no more can.
  bool all_awaited_came() const;
  // The join of a peer was refused: the usual cause of a run that does not begin.
  void refused(Peer peer, const std::string& why) { refused_[peer] = why; }
  // "node 2, shard 1 have not joined, node 0 has not sent shard 2 its initial parameters"
  std::string missing() const;
  // "; refused: node 1: protocol version 99, expected 1", of those who are still missing; empty when nobody
  // was.
  std::string refusals() const;

  // ---- who has come while training went on
  // From that clock on the worker is of the process that is here.
  void begins(WorkerId worker, Clock at) { begins_[rank_of(worker)] = at; }
  bool is_of_a_former_process(WorkerId worker, Clock clock) const;
  bool is_of_a_former_process(const wire::NodeLost& lost) const;

 private:
  std::uint32_t rank_of(WorkerId worker) const { return cluster_.rank_of(worker).value; }

  const Cluster cluster_;
  const std::optional<std::uint32_t> nodes_at_start_;
  const std::vector<sync::WorkerState>* const resumed_;
  std::vector<NodeState> nodes_;
  std::vector<Process> processes_;
  std::vector<Clock> begins_;  // by rank, of who has_come: the first stamp of this process
  std::vector<ShardState> shards_;
  std::map<Peer, std::string> refused_;  // who was not let in, and why the last time
};

}  // namespace paceline::server
