// How connections of a mesh begin: who is who. Each end says a Hello: 16 bytes, and in a run with keys the public part
// of a pair drawn for this connection, which is then proven (seal.h).
//
//   who connects          who accepts
//   Hello, public part ->
//                      <- Hello, public part, proof
//   proof              ->
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "worker/mesh/connection.h"
#include "worker/mesh/mesh.h"

namespace paceline::mesh {

// The connections of Mesh::connect(), by rank; its errors. `gone`, where it is not null: with kUnavailable the node
// that nobody listens for, or that has closed its connection; nullopt where it is none. `begun`, where it is not null:
// on an error what there is of connections, which ends with it; for the other end they may be whole already.
Result<PeerConnections> shake_hands(const Listening& listening, const Place& place, const StopFlag& stop,
                                    std::chrono::milliseconds within, std::optional<NodeId>* gone = nullptr,
                                    std::shared_ptr<const void>* begun = nullptr);

// "node 2 (10.0.0.3:40123)"
std::string name_of(const Place& place, std::uint32_t rank);

}  // namespace paceline::mesh
