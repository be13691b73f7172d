// A simulated network: messages are closures delivered after a random delay, in order on each link (as ZeroMQ
// keeps them). A dead sender's messages are cut off somewhere after its death, so pushes end half-way; what
// goes over a connection that breaks is lost as connections.h says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "common/random.h"
#include "tests/sim/connections.h"

namespace paceline::test {

class Network {
 public:
  using Action = std::function<void()>;

  explicit Network(std::uint64_t seed, std::uint64_t generation = 0)
      : random_(seed, Stream::kTest, 2, generation) {}

  std::int64_t now_ns() const { return now_; }
  CounterRandom& random() { return random_; }

  // Runs `action` after `delay_ns`, on nobody's link.
  void after(std::int64_t delay_ns, Action action) { push(now_ + delay_ns, std::move(action)); }

  // Delivers `action` from one party to another: 0.05 to 3 ms, rarely 20, after everything sent there
  // before over the same connection.
  void send(Party from, Party to, Action action) {
    const Connections::Way way = connections_.way(from, to);
    if (Connections::is_broken(way)) return lost();
    push(in_order(from, to, way.number), [this, from, to, way, action = std::move(action)] {
      const auto cut = cut_.find(from);
      if (cut != cut_.end() && now_ > cut->second + cut_slack(from, to)) return;
      Connections::is_read(way, now_) ? action() : lost();
    });
  }
  // The same after 0 to 4 ms, whatever was sent before.
  void send_in_any_order(Party from, Party to, Action action) {
    const Connections::Way way = connections_.way(from, to);
    const std::int64_t delay = random_between(0, 4'000'000);
    if (Connections::is_broken(way)) return lost();
    after(delay,
          [this, way, action = std::move(action)] { Connections::is_read(way, now_) ? action() : lost(); });
  }

  // The connection between the two breaks: what is under way is lost, in each direction from a moment of its
  // own.
  void break_connection(Party one, Party other) {
    const Connections::Way way = connections_.way(one, other);
    Connections::breaks(way, now_ + random_between(0, 4'000'000), now_ + random_between(0, 4'000'000));
  }
  bool is_broken(Party one, Party other) { return Connections::is_broken(connections_.way(one, other)); }
  // `from` makes another one, and says `first` over it.
  void connect_again(Party from, Party to, Action first) {
    const Connections::Way way = Connections::another(connections_.way(from, to));
    push(in_order(from, to, way.number), [this, from, way, first = std::move(first)] {
      if (cut_.count(from) == 0 && Connections::is_taken(way, now_)) first();
    });
  }
  std::int64_t messages_lost() const { return lost_; }

  // `party` is dead from now on.
  void cut(Party party) { cut_.try_emplace(party, now_); }

  // Delivers the next message; false when there is none.
  bool deliver_next() {
    if (queue_.empty()) return false;
    Entry next = queue_.top();
    queue_.pop();
    now_ = next.time;
    next.action();
    return true;
  }

  std::int64_t random_between(std::int64_t least, std::int64_t end) {
    return least + static_cast<std::int64_t>(random_.next_below(static_cast<std::uint64_t>(end - least)));
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
  // When what is sent now arrives.
  std::int64_t in_order(Party from, Party to, std::size_t connection) {
    std::int64_t delay = random_between(50'000, 3'050'000);
    if (random_.next_below(20) == 0) delay += 20'000'000;
    std::int64_t& last = last_delivery_[{from, to, connection}];
    last = std::max(last + 1, now_ + delay);
    return last;
  }
  void lost() { ++lost_; }
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
  Connections connections_;
  std::int64_t lost_ = 0;
  std::map<std::tuple<Party, Party, std::size_t>, std::int64_t> last_delivery_;
  std::map<std::pair<Party, Party>, std::int64_t> slack_;
  std::map<Party, std::int64_t> cut_;
};

}  // namespace paceline::test
