// How many small messages (common/wire/unread.h) may wait for a node that does not read, before it is lost;
// large ones are bounded by the pulls that it may have open. Each takes a few hundred bytes, so one that asks
// and does not read takes about a megabyte. The bound leaves room for all that may wait for a node that
// stands still, or reads a large answer slowly: of each training thread a grant, a notice, the answers to its
// pulls. Heartbeats, and the notices that a grant is still held, which come again and again, are none of it:
// after what is unread they say nothing, and are left out (kHeartbeatsUnread).
#pragma once

#include <cstdint>

#include "common/config/run_config.h"
#include "common/wire/unread.h"

namespace paceline::server {

// Pulls of a node that have no answer yet: one of each thread, hidden of three iterations, each in as many as there are
// fragments, one ahead, and the evaluator's.
inline std::int64_t pulls_max(const RunConfig& config) {
  const std::int64_t of_thread = (config.exchange.hidden ? 3 : 1) * config.exchange.fragments;
  return of_thread * std::int64_t{config.cluster.threads_per_node} + 2;
}

// `floats`: of the shard, 0 where that is not known yet.
inline std::int64_t unread_messages_max(const RunConfig& config, std::int64_t floats) {
  const ClusterSection& cluster = config.cluster;
  constexpr std::int64_t kAtLeast = 1024;
  constexpr std::int64_t kOfThread = 16;
  const std::int64_t threads = cluster.threads_per_node;
  // An answer may come in pieces that are small themselves, also because they are encoded in half the bytes.
  const bool small_pieces = cluster.frame_bytes <= 2 * static_cast<std::int64_t>(wire::kCopiedBytesMax);
  const std::int64_t floats_of_piece = cluster.frame_bytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t pieces = small_pieces ? floats / floats_of_piece + 1 : 1;
  return kAtLeast + kOfThread * threads + pulls_max(config) * pieces;
}

// A peer with so many waiting hears of us, and of what is held, when it reads those.
inline constexpr std::int64_t kHeartbeatsUnread = 4 * wire::Unread::kMarkEvery;

}  // namespace paceline::server
