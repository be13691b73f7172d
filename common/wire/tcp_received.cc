#include "common/wire/tcp_received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace paceline::wire {

std::optional<std::int64_t> received_over(int descriptor) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return static_cast<std::int64_t>(info.tcpi_bytes_received);
}

}  // namespace paceline::wire
