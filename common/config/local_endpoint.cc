#include "common/config/local_endpoint.h"

#include <cstddef>

namespace paceline {

bool is_loopback_number(std::string_view host) {
  int parts = 0;
  while (parts < 4) {
    const std::size_t dot = host.find('.');
    const std::string_view part = host.substr(0, dot);
    if (part.empty() || part.size() > 3 || part.find_first_not_of("0123456789") != part.npos) return false;
    if (parts == 0 && part != "127") return false;
    ++parts;
    if (dot == host.npos) return parts == 4;
    host.remove_prefix(dot + 1);
  }
  return false;
}

bool stays_on_this_machine(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://")) return true;
  constexpr std::string_view kTcp = "tcp://";
  const std::string_view host = endpoint.substr(kTcp.size(), endpoint.rfind(':') - kTcp.size());
  return host == "localhost" || is_loopback_number(host);
}

}  // namespace paceline
