#include "common/config/mesh_address.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "common/config/local_endpoint.h"

namespace paceline {
namespace {

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

Result<MeshAddress> parse_mesh_address(const std::string& text) {
  MeshAddress address;
  std::string ports;
  bool has_ports = false;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    address.host = text.substr(1, close == text.npos ? close : close - 1);
    if (close == text.npos || !is_ipv6_number(address.host)) {
      return invalid_argument("no IPv6 address in the brackets");
    }
    has_ports = close + 1 < text.size();
    if (has_ports && text[close + 1] != ':') return invalid_argument("no colon after the brackets");
    if (has_ports) ports = text.substr(close + 2);
  } else {
    const std::size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    has_ports = colon != text.npos;
    if (has_ports) ports = text.substr(colon + 1);
    if (ports.find(':') != ports.npos) {
      return invalid_argument(is_ipv6_number(text) ? "an IPv6 address stands in brackets" : "several colons");
    }
  }
  if (address.host == "0.0.0.0" || address.host == "::") {
    return invalid_argument("no address that others can reach");
  }
  if (address.host.find('/') != address.host.npos) return invalid_argument("an address with a path");
  if (!has_ports) return address.host.empty() ? Result<MeshAddress>(invalid_argument("no host")) : address;
  const std::size_t dash = ports.find('-');
  const auto first = port_of(std::string_view(ports).substr(0, dash));
  const auto last = dash == ports.npos ? std::nullopt : port_of(std::string_view(ports).substr(dash + 1));
  if (!first || !last) return invalid_argument("no two ports from 1 to 65535");
  if (*first > *last) return invalid_argument("a first port after the last one");
  address.first = *first;
  address.last = *last;
  return address;
}

}  // namespace paceline
