// The pulls under way: what each asks of every shard, who waits for it, and what the shards answered. A pool
// that everybody refers into by number; a pull that is over leaves its place to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/clock.h"
#include "common/ids.h"

namespace paceline::simulate {

// By number, so that one who asks whether his pull is answered cannot mistake a later one for it.
using Ticket = std::uint64_t;

struct Pull {
  NodeId node;
  std::uint32_t incarnation = 0;  // of the node (events.h)
  Ticket ticket = 0;
  Version min_version;
  std::int64_t fragment = 0;               // what it asks for (exchange.fragments)
  std::uint32_t shards_open = 0;           // that have not answered
  std::vector<std::uint32_t> waiting;      // threads of the node
  std::vector<Revision> have;              // by shard: what the node had when it asked
  std::vector<cache::SliceStamp> answers;  // by shard; what is sent, or confirmed
};

// Thread: one.
class Pulls {
 public:
  explicit Pulls(std::uint32_t shards) : shards_(shards) {}

  // Of so many shards as have some of the fragment.
  std::uint32_t begin(NodeId node, std::uint32_t incarnation, Version min_version, std::int64_t fragment,
                      std::uint32_t shards) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(pulls_.size()));
      pulls_.emplace_back();
      pulls_.back().have.resize(shards_);
      pulls_.back().answers.resize(shards_);
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Pull& pull = pulls_[place];
    pull.node = node;
    pull.incarnation = incarnation;
    pull.ticket = ++last_ticket_;
    pull.min_version = min_version;
    pull.fragment = fragment;
    pull.shards_open = shards;
    pull.waiting.clear();
    return place;
  }
  void end(std::uint32_t place) { free_.push_back(place); }

  Pull& operator[](std::uint32_t place) { return pulls_[place]; }

 private:
  std::uint32_t shards_;
  std::vector<Pull> pulls_;
  std::vector<std::uint32_t> free_;
  Ticket last_ticket_ = 0;
};

}  // namespace paceline::simulate
