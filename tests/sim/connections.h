// Connections: which connection two processes speak over, and what of it arrives. One that breaks loses what
// is under way in either direction, from a random moment on, and whatever is still said over it. The process
// that had made it makes another one, and the other end has the choice of neither: what it reads first over
// the new connection ends the one before, whatever of that is unread (docs/PROTOCOL.md, 6).
//
//   node     says 1 2 3 4 over connection 1, which breaks; 5 is lost, too
//   server   hears 1 2; then the join over connection 2. If 3 comes now, nobody reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace paceline::test {

// A party on the network: the authority, a shard or a node.
using Party = int;
inline constexpr Party kAuthorityParty = 0;
constexpr Party shard_party(std::uint32_t shard) { return 1 + static_cast<Party>(shard); }
// Who comes back is another party: what the dead one sent is still cut off.
constexpr Party node_party(std::uint32_t node, std::uint32_t incarnation) {
  return 100 + static_cast<Party>(node) + 100 * static_cast<Party>(incarnation);
}
// The authority is in shard 0's process, and has its connections.
constexpr Party process_of(Party party) { return party == kAuthorityParty ? shard_party(0) : party; }

class Connections {
  struct Connection {
    bool broken = false;
    // By direction: what would arrive later does not.
    std::int64_t until[2] = {std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::max()};
  };
  struct Link {
    std::size_t end[2] = {0, 0};  // which connection each process speaks over, and reads
    std::vector<Connection> all{1};
  };

 public:
  // One direction of a connection, that something is said over.
  struct Way {
    Link* link = nullptr;
    std::size_t number = 0;
    int speaker = 0;  // which of the two ends
  };

  // The one that `from` speaks to `to` over now.
  Way way(Party from, Party to) {
    const Party a = process_of(from), b = process_of(to);
    Link& link = links_[{a < b ? a : b, a < b ? b : a}];
    const int speaker = a < b ? 0 : 1;
    return {&link, link.end[speaker], speaker};
  }

  static bool is_broken(const Way& way) { return way.link->all[way.number].broken; }
  // Whether what was said so is read where it arrives, at `now`.
  static bool is_read(const Way& way, std::int64_t now) {
    return way.link->end[1 - way.speaker] == way.number &&
           now <= way.link->all[way.number].until[way.speaker];
  }

  // It breaks, unless it has: what its speaker's end said arrives until `there`, what the other said until
  // `back`.
  static void breaks(const Way& way, std::int64_t there, std::int64_t back) {
    Connection& connection = way.link->all[way.number];
    if (std::exchange(connection.broken, true)) return;
    connection.until[way.speaker] = there;
    connection.until[1 - way.speaker] = back;
  }
  // Its speaker makes another one, and gives this one up.
  static Way another(const Way& way) {
    way.link->all.emplace_back();
    way.link->end[way.speaker] = way.link->all.size() - 1;
    return {way.link, way.link->end[way.speaker], way.speaker};
  }
  // The other end reads the first of it, at `now`: false where it has broken before, or where it was followed
  // by another one that has been read.
  static bool is_taken(const Way& way, std::int64_t now) {
    std::size_t& end = way.link->end[1 - way.speaker];
    if (way.number <= end || now > way.link->all[way.number].until[way.speaker]) return false;
    end = way.number;
    return true;
  }

 private:
  std::map<std::pair<Party, Party>, Link> links_;
};

}  // namespace paceline::test
