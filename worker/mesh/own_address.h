// Where a node is reached by the others of its mesh: at which of the machine's addresses, and at which ports it may
// listen (cluster.mesh_address).
//
// Thread: any.
#pragma once

#include <string>

#include "common/config/mesh_address.h"
#include "common/status.h"
#include "worker/mesh/peer_socket.h"

namespace paceline::mesh {

// Listens where `wanted` says; where it names no host, at the address from which `server`, a "tcp://host:port", is
// reached. Errors: kUnavailable no such address of this machine, or none of those ports is free, naming both.
Result<Listening> listen_for_peers(const MeshAddress& wanted, const std::string& server);

}  // namespace paceline::mesh
