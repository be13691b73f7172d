// One random schedule over real sockets, judged: a run drawn from a seed (random_run.h), with jitter, nodes
// that finish early and nodes that leave, every read of the counting model checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"

namespace paceline::testing {

class Coverage;

// Whether connections break meanwhile (breaking_relay.h), each of a node or another server with a server a
// few times, and the nodes go on over others.
enum class Network { kStands, kBreaks };

// Connections that broke; of those, between the authority and another server; nodes that did not hear how
// their run ended, since that was on its way over one.
struct Broken {
  std::atomic<std::int64_t> all{0};
  std::atomic<std::int64_t> of_servers{0};
  std::atomic<std::int64_t> ended_alone{0};
};

// Runs the schedule of `seed`; every violation of a guarantee, and whatever else went wrong, as sentences.
// What has run is counted in `coverage`, if there is one, and the connections that broke in `broken`. Thread:
// any; several may run at a time.
std::vector<std::string> violations_of(std::uint64_t seed, Coverage* coverage = nullptr,
                                       Network network = Network::kStands, Broken* broken = nullptr);

}  // namespace paceline::testing
