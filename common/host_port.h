// "host:port" taken apart, of an endpoint, an HTTP address or a URL. An IPv6 address has colons of its own, so it
// stands in brackets: "[::1]:5555".
//
// Pure. Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

struct HostPort {
  std::string host;       // without brackets
  std::string port;       // what stands after the last colon; empty: there is none
  bool brackets = false;  // an IPv6 address

  // As it stands in an address: with its brackets.
  std::string written_host() const { return brackets ? "[" + host + "]" : host; }
};

// `text` without a scheme.
inline HostPort host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort parts;
  if (colon != text.npos) parts.port = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  parts.brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (parts.brackets) host = host.substr(1, host.size() - 2);
  parts.host = host;
  return parts;
}

// Of "tcp://host:port".
inline HostPort host_and_port_of_tcp(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  return endpoint.starts_with(kTcp) ? host_and_port(endpoint.substr(kTcp.size())) : HostPort{};
}

}  // namespace paceline
