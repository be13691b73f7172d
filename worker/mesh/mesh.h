// The mesh: one TCP connection between every two nodes of a run, and the executor of all-reduce plans over them.
//
// Raw sockets, since what comes next over a connection is known beforehand: the bytes of a transfer go from the
// kernel straight into the vector that waits for them (or, to be added, through a buffer that stays in the
// processor's cache), and no queue lies between. A message library would copy, and wake a thread of its own.
//
// Floats may travel as fp16 or bf16; they are added as float32. A rank that sends a float rounds its own in the same
// way: so whoever sums an element ends with the bits that it has spread.
//
// Ranks of one machine read each other's floats where they lie (shared_peers.h); what is said of the rest holds for
// them, too.
//
// On the wire, little endian. A connection begins with a Hello in each direction (handshake.h), from where on all is
// sealed in a run with keys (connection.h), and between ranks of
// one machine with an Offer of memory and a byte, whether it could be mapped (shared_peers.cc). Then come, for each
// transfer of the plan that is sent, a Head and its floats. A Head says which reduction and which floats, and is
// compared with the plan before a byte is put anywhere.
//
// The first failure is for good: some ranks may have gone on, so no later reduction could be trusted. It names
// the rank. What was reduced until then is neither the old nor the new vector; whoever hands it in keeps what it
// must not lose apart (worker/allreduce/).
//
// Thread: one at a time, but stop().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/formation_key.h"
#include "common/ids.h"
#include "common/schedule/first_adds.h"
#include "common/schedule/program.h"
#include "common/status.h"
#include "worker/mesh/connection.h"
#include "worker/mesh/peer_socket.h"
#include "worker/mesh/shared_peers.h"
#include "worker/mesh/stop_flag.h"

namespace paceline::mesh {

// A rank's place among others.
struct Place {
  std::uint32_t rank = 0;
  std::vector<std::string> endpoints;  // of every rank, "10.0.0.3:40123"
  std::uint64_t token = 0;             // of the run: who does not say it is a stranger
  std::vector<NodeId> nodes = {};      // of each rank, for words; empty: rank r is node r
  bool shares = false;  // ranks of one machine share memory, where they can; the same on all ranks
  std::optional<FormationKey> key = {};  // nullopt: the run has no keys

  NodeId node_of(std::uint32_t of) const { return nodes.empty() ? NodeId(of) : nodes[of]; }
};

// Connections to the other ranks of a place, by rank; null: this one, or one that there is none to.
using PeerConnections = std::vector<std::unique_ptr<Connection>>;

// Of each rank, by the host of its endpoint, numbered as they come.
std::vector<std::uint32_t> machines_of(const Place& place);

class Spin;

class Mesh {
 public:
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Connects to every lower rank and waits for every higher one, for at most `within`. `listening`: this rank's
  // endpoint. `stop`, outlives the mesh. `segment`, where the place shares: of SharedPeers::segment_bytes(), with the
  // vector that is reduced in it; null: none could be made. Errors, naming the rank: kUnavailable one cannot be
  // reached, and why; kDeadlineExceeded those that have not come; kAborted stopped.
  static Result<std::unique_ptr<Mesh>> connect(const Listening& listening, Place place, StopFlag& stop,
                                               std::chrono::milliseconds within,
                                               std::shared_ptr<wire::SharedSegment> segment = nullptr);
  // The same over connections that are there (handshake.h), to every other rank. It reduces once share() has returned:
  // where that fails its connections stand until it ends.
  static std::unique_ptr<Mesh> over(PeerConnections connections, Place place, StopFlag& stop);
  Status share(std::chrono::milliseconds within, std::shared_ptr<wire::SharedSegment> segment);

  // Carries out this rank's part on `vector` (program.floats), reduction `number` of all, which counts from 0 and
  // is the same on every rank. `silence`: for how long nothing may come of a transfer that has begun to, and
  // a peer's machine may acknowledge nothing of what has left for it (a second at least). A rank that only has not
  // begun is waited for without a limit, since it may compute for so long: that it lives is the authority's to watch.
  // Errors, as from then on: kUnavailable ranks have closed their connections: all that have by then, since the first
  // that is seen to may have gone because of another; or what came of one was changed; kInvalidArgument one is at
  // another reduction or has another plan; kDeadlineExceeded silence, naming whose; kAborted stopped.
  Status reduce(const schedule::Program& program, std::span<float> vector, std::uint32_t number,
                std::chrono::milliseconds silence) {
    return reduce(program, vector, number, silence, {});
  }
  // The same of a vector in which nothing is yet: `make` writes the floats from `at` on, each once, as late as can be:
  // what a row begins (common/schedule/first_adds.h) as it is added to, the rest before the first row moves.
  struct Beginning {
    const schedule::FirstAdds* first = nullptr;  // of the program; null: all is there
    std::function<void(std::int64_t at, std::span<float> out)> make = {};
  };
  Status reduce(const schedule::Program& program, std::span<float> vector, std::uint32_t number,
                std::chrono::milliseconds silence, const Beginning& beginning);
  // Several of these at a time, whose vectors do not overlap and lie where peers can read them, if any are read. To
  // and from a peer the first one's transfers come first: so others may take as many of them together as they like, as
  // long as all take them in this order. `on_done`: one is whole on this rank; they may end in another order.
  struct Part {
    const schedule::Program& program;
    std::span<float> vector;
    std::uint32_t number = 0;
    Beginning beginning = {};
  };
  Status reduce(std::span<const Part> parts, std::chrono::milliseconds silence,
                const std::function<void(std::size_t part)>& on_done);

  // Whether any rank is reached over shared memory.
  bool shares_memory() const { return shared_ != nullptr && shared_->any(); }
  bool has_keys() const { return has_keys_; }  // the same on all ranks
  // What it has sent so far, or let others read, as bytes of floats alone, as encoded.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  // The first rank that had closed its connection when share() or reduce() failed by it.
  std::optional<std::uint32_t> gone() const { return gone_; }

 private:
  Mesh(Place place, StopFlag& stop);
  class Reduction;
  // Looks anew. In order; the first is gone().
  std::vector<std::uint32_t> closed_peers();

  Place place_;
  StopFlag& stop_;
  const bool has_keys_;
  PeerConnections peers_;
  std::unique_ptr<SharedPeers> shared_;  // null: the place shares nothing
  std::vector<float> staging_;           // what is added passes through here,
  std::vector<float> decoded_;           // in another encoding than fp32 through this
  std::unique_ptr<Spin> spin_;
  Status broken_ = Status::ok();
  std::int64_t bytes_sent_ = 0;
  std::optional<std::uint32_t> gone_;
};

}  // namespace paceline::mesh
