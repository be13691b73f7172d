#include "common/config/local_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "common/host_port.h"

namespace paceline {

bool is_loopback_number(std::string_view host) {
  const std::string text(host);
  in_addr v4 = {};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6 = {};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_ipv6_number(std::string_view host) {
  in6_addr address = {};
  return inet_pton(AF_INET6, std::string(host.substr(0, host.find('%'))).c_str(), &address) == 1;
}

bool stays_on_this_machine(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://")) return true;
  const std::string host = host_and_port_of_tcp(endpoint).host;
  return host == "localhost" || is_loopback_number(host);
}

// A run with an ipc:// endpoint is one machine's, whatever its others are called.
std::string wrongly_loopback(const std::vector<std::string>& endpoints, const std::string& endpoint,
                             const std::string& address) {
  const auto is_ipc = [](const std::string& each) { return each.starts_with("ipc://"); };
  const bool one_machine = std::any_of(endpoints.begin(), endpoints.end(), is_ipc) ||
                           std::all_of(endpoints.begin(), endpoints.end(), stays_on_this_machine);
  const std::string host = host_and_port_of_tcp(address).host;
  if (one_machine || !is_loopback_number(host)) return "";
  return endpoint + " leads to " + host + ", where no other machine comes";
}

}  // namespace paceline
