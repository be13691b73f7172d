// Keys: who is who on connections that CURVE protects, and the folder in which a machine keeps them.
//
//   server.key   the servers' secret, one pair for all shards          server.pub   its public part
//   node-3.key   node 3's secret                                       node-3.pub   its public part
//   node.key     or one pair for all nodes                             node.pub
//
//   on a server   server.key, and of whom it lets in the public part: node-I.pub of each node, or node.pub,
//                 not both: whoever has node.key may be any node
//   on node 3     node-3.key, or node.key, and server.pub
//
// A file is one line, a key of 40 characters (Z85, ZeroMQ's RFC 32), with comments ("# …") around it. A
// secret key that others can read is refused, and so is a folder into which others can write: who is let in
// is what lies there.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace paceline::wire {

// As Z85 text.
struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

// What a server's socket needs: its own pair, and whom it lets in.
struct ServerKeys {
  KeyPair own;
  std::map<std::string, std::string> allowed;  // public key -> whose it is: "node-3", "node", "server"
};

// What a connection to a server needs. A shard connects to the authority with the servers' own pair.
struct ClientKeys {
  KeyPair own;
  std::string own_name;  // "node-3", "node", "server": the file that must lie on the server is own_name.pub
  std::string server;    // its public key
};

// The names of the files without their ending; also what a server calls the owner of a key.
inline constexpr const char* kServerKey = "server";
inline constexpr const char* kAnyNodesKey = "node";
std::string node_key_name(std::uint32_t node);  // "node-3"

// Whether the owner of a key may speak as this node; as a server.
bool may_be_node(const std::string& key_name, std::uint32_t node);
inline bool may_be_server(const std::string& key_name) { return key_name == kServerKey; }

// kFailedPrecondition where this machine's libzmq was built without CURVE.
[[nodiscard]] Status check_curve();

// Writes new keys into `folder`, which is made (0700) where it is not there: the servers' pair, and one pair
// for each of `nodes`, or one for all. Returns the names of the files. Errors: kFailedPrecondition one of the
// files is there already, and nothing was written; check_curve(); kUnavailable a file or the folder cannot be
// written.
Result<std::vector<std::string>> make_keys(const std::filesystem::path& folder,
                                           std::optional<std::uint32_t> nodes);

// What a server of a run with that many nodes reads in its folder; what a node does, and what a shard other
// than the authority does, to speak with the authority. Errors, naming the file: kFailedPrecondition a file
// is missing, belongs to somebody else, or can be read (a secret) or written by others; node.pub lies beside
// a node's own; kInvalidArgument it is no key (with the line); two nodes with one key.
Result<ServerKeys> read_server_keys(const std::filesystem::path& folder, std::uint32_t nodes);
Result<ClientKeys> read_node_keys(const std::filesystem::path& folder, std::uint32_t node);
Result<ClientKeys> read_shard_keys(const std::filesystem::path& folder);

}  // namespace paceline::wire
