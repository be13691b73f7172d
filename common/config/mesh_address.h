// cluster.mesh_address: at which of its addresses, and at which ports, a node listens for the other nodes of an
// all-reduce, a pipeline or a norm group.
//
//   "10.1.0.3"                 this address of the machine, any free port
//   "ib0:40000-40015"          that of the interface ib0, the first free one of these ports
//   ":40000-40015"             the address from which the server is reached
//   "[fe80::1]:40000-40015"    an IPv6 address stands in brackets
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace paceline {

struct MeshAddress {
  std::string host;         // a number, a name or an interface; empty: as the server is reached
  std::uint16_t first = 0;  // port; 0: the system chooses one
  std::uint16_t last = 0;   // >= first
  bool operator==(const MeshAddress&) const = default;
};

inline constexpr const char* kMeshAddressExpected = "\"host\", \"host:first-last\" or \":first-last\"";

// Errors: kInvalidArgument, what is wrong.
Result<MeshAddress> parse_mesh_address(const std::string& text);

}  // namespace paceline
