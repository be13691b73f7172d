// What is logged of connections that break again and again: of each peer the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/peers/reliable_channel.h"

namespace paceline::server {

inline constexpr std::int64_t kReconnectsLogged = 20;

inline std::string logged_last(std::int64_t times) {
  return times == kReconnectsLogged ? "; what else breaks of it is counted, not logged" : "";
}

// Of the `times`-th connection between the authority and another shard.
inline std::string retransmitted(const ReliableChannel& channel, std::int64_t times) {
  const std::size_t count = channel.unacked().size();
  return std::to_string(count) + (count == 1 ? " message is" : " messages are") + " sent again" +
         logged_last(times);
}

}  // namespace paceline::server
