#include "worker/mesh/own_address.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

namespace paceline::mesh {
namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* found) const { freeifaddrs(found); }
};

// Of an interface of that name the first address, an IPv4 one where it has any; empty: there is no such interface, or
// it has none. A link-local one is of no use without the name, which getnameinfo() puts after it.
std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, FreeInterfaces> interfaces(all);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family || name != each->ifa_name)
        continue;
      char host[NI_MAXHOST];
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (getnameinfo(each->ifa_addr, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
        return host;
    }
  }
  return "";
}

Result<std::string> own_address(const std::string& host, const std::string& server) {
  if (host.empty()) return address_towards(server);
  std::string of_interface = address_of_interface(host);
  return of_interface.empty() ? number_of(host) : Result<std::string>(std::move(of_interface));
}

}  // namespace

Result<Listening> listen_for_peers(const MeshAddress& wanted, const std::string& server) {
  PACELINE_ASSIGN_OR_RETURN(const std::string address, own_address(wanted.host, server));
  return listen_at(address, {wanted.first, wanted.last});
}

}  // namespace paceline::mesh
