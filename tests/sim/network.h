// A simulated network: messages are closures delivered after a random delay, in order on each link (as ZeroMQ
// keeps them). A dead sender's messages are cut off somewhere after its death, so pushes end half-way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "common/random.h"

namespace paceline::test {

// A party on the network: the authority, a shard or a node.
using Party = int;
inline constexpr Party kAuthorityParty = 0;
constexpr Party shard_party(std::uint32_t shard) { return 1 + static_cast<Party>(shard); }
// Who comes back is another party: what the dead one sent is still cut off.
constexpr Party node_party(std::uint32_t node, std::uint32_t incarnation) {
  return 100 + static_cast<Party>(node) + 100 * static_cast<Party>(incarnation);
}

class Network {
 public:
  using Action = std::function<void()>;

  explicit Network(std::uint64_t seed) : random_(seed, Stream::kTest, 2) {}

  std::int64_t now_ns() const { return now_; }
  CounterRandom& random() { return random_; }

  // Runs `action` after `delay_ns`, on nobody's link.
  void after(std::int64_t delay_ns, Action action) { push(now_ + delay_ns, std::move(action)); }

  // Delivers `action` from one party to another: 0.05 to 3 ms, rarely 20, behind everything sent there
  // before.
  void send(Party from, Party to, Action action) {
    std::int64_t delay = 50'000 + static_cast<std::int64_t>(random_.next_below(3'000'000));
    if (random_.next_below(20) == 0) delay += 20'000'000;
    std::int64_t& last = last_delivery_[{from, to}];
    last = std::max(last + 1, now_ + delay);
    push(last, [this, from, to, action = std::move(action)] {
      const auto cut = cut_.find(from);
      if (cut != cut_.end() && now_ > cut->second + cut_slack(from, to)) return;
      action();
    });
  }

  // `party` is dead from now on.
  void cut(Party party) { cut_[party] = now_; }

  // Delivers the next message; false when there is none.
  bool deliver_next() {
    if (queue_.empty()) return false;
    Entry next = queue_.top();
    queue_.pop();
    now_ = next.time;
    next.action();
    return true;
  }

 private:
  struct Entry {
    std::int64_t time;
    std::uint64_t order;
    Action action;
    bool operator<(const Entry& other) const {
      return std::pair(time, order) > std::pair(other.time, other.order);  // earliest on top
    }
  };
  void push(std::int64_t time, Action action) { queue_.push({time, order_++, std::move(action)}); }
  // Each link of a dead party is cut at a moment of its own: what one shard still gets another does not.
  std::int64_t cut_slack(Party from, Party to) {
    const auto [slack, fresh] = slack_.try_emplace({from, to}, 0);
    if (fresh) slack->second = static_cast<std::int64_t>(random_.next_below(4'000'000));
    return slack->second;
  }

  CounterRandom random_;
  std::int64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Entry> queue_;
  std::map<std::pair<Party, Party>, std::int64_t> last_delivery_;
  std::map<std::pair<Party, Party>, std::int64_t> slack_;
  std::map<Party, std::int64_t> cut_;
};

}  // namespace paceline::test
