// Nodes that read slowly, judged: a shard's service under a random schedule of frames, preparing, decisions,
// pulls, exact pulls, evaluations that end, losses, and an outbox whose queues empty when the schedule says
// so.
#pragma once

#include <cstdint>
#include <string>

namespace paceline::server {

// Runs the schedule of `seed`; the first of these that did not hold, empty when all did:
//   memory     after every step at most blocks x (2 + retained versions) are alive, encoded ones once
//   answered   every pull is answered once everybody has read, with the version it asked for or a newer one
//   monotonic  what a node is answered with never gets older
//   content    a reply's numbers are those of its version, all of one state; 'unchanged' is what the node has
//   gone       what was sent to a lost node is not kept, though breaking its connection may fail
// Adds to `prepared` the blocks that decisions took over as they had been prepared. Thread: any.
std::string violation_of_slow_readers(std::uint64_t seed, std::int64_t* prepared = nullptr);

}  // namespace paceline::server
