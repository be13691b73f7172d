// Channels between nodes that are threads of a process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "common/task/peers.h"

namespace paceline {

class Switchboard {
 public:
  class Node final : public PeerChannels {
   public:
    Node(Switchboard& board, NodeId node) : board_(board), node_(node) {}
    Status send(NodeId to, PeerMessage message) override {
      const std::lock_guard lock(board_.mutex_);
      board_.queues_[{node_, to}].push_back(std::move(message));
      board_.changed_.notify_all();
      return Status::ok();
    }
    Result<PeerMessage> receive_within(NodeId from,
                                       std::optional<std::chrono::milliseconds> within) override {
      std::unique_lock lock(board_.mutex_);
      auto& queue = board_.queues_[{from, node_}];
      const bool came = board_.changed_.wait_for(lock, within.value_or(std::chrono::seconds(60)),
                                                 [&] { return !queue.empty(); });
      if (!came) return deadline_exceeded("nothing came");
      PeerMessage message = std::move(queue.front());
      queue.pop_front();
      return message;
    }

   private:
    Switchboard& board_;
    NodeId node_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<NodeId, NodeId>, std::deque<PeerMessage>> queues_;
};

}  // namespace paceline
