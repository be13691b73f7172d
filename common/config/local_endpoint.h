// What an address is: in numbers, and whether only this machine reaches it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// Whether `host` is 127.x.y.z or ::1 in numbers, without brackets; a name like 127.0.0.1.example.org is not.
bool is_loopback_number(std::string_view host);

// Of a host as it is without brackets; an interface may follow (fe80::1%eth0).
bool is_ipv6_number(std::string_view host);

// Of an endpoint as the schema lets it pass, "tcp://host:port" or "ipc://path": ipc, or localhost, or a
// loopback address in numbers.
bool stays_on_this_machine(std::string_view endpoint);

// What is wrong with `endpoint`, one of a run's `endpoints`, which leads to `address` ("tcp://127.0.1.1:5555"):
// to loopback, though by the endpoints other machines are to take part. Debian's /etc/hosts has such a line for
// a machine's own name. Empty: nothing is.
std::string wrongly_loopback(const std::vector<std::string>& endpoints, const std::string& endpoint,
                             const std::string& address);
// And what to do about that.
inline constexpr const char* kLoopbackAdvice =
    "take that name's line with 127.x.y.z out of /etc/hosts, or write the address that other machines reach "
    "in cluster.endpoints";

}  // namespace paceline
