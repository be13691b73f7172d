// SharedPeers: ranks of one machine read each other's floats where they lie, instead of sending them.
//
// Each rank has a segment (common/wire/shared_memory.h) that it alone writes and the others map to read. In it lie
// the vector that is reduced, and a board: what this rank says to each of the others.
//
//   rank 0's board, for rank 1: offered 3 rows, of which the newest are: floats 16..32 of reduction 7, at byte 4096
//                               taken 2 rows of rank 1's
//   rank 1 reads the third row out of rank 0's vector, adds it to its own, and writes "taken 3" on its own board
//
// A row that is offered does not change until it is taken. A rank that finds nothing to do writes that it sleeps, looks
// once more, and waits at its sockets: who offers or takes something then sends it a byte. A socket that closes says
// that a peer is gone, as everywhere in the mesh; nobody can be kept from reading what it has left, and nothing of it
// stays but that.
//
// Thread: one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/status.h"
#include "common/wire/shared_memory.h"
#include "worker/mesh/connection.h"
#include "worker/mesh/stop_flag.h"

namespace paceline::mesh {

struct Place;

// Which floats of which reduction a transfer has (mesh.h).
struct RowHead {
  std::uint32_t number = 0;
  std::uint32_t floats = 0;
  std::int64_t begin = 0;
  bool operator==(const RowHead&) const = default;
};

class SharedPeers {
 public:
  // How many rows may be offered to a peer and not taken.
  static constexpr std::uint64_t kOffersMax = 8;
  // Of a segment for a vector of so many floats, of so many ranks: also what vectors elsewhere pass through.
  static std::int64_t segment_bytes(std::int64_t floats, std::size_t ranks);

  // Agrees with each rank of this machine, over its connection, whether both can read the other's segment.
  // `segment`: null: none here, which the others are told. Errors: kUnavailable a peer is gone, kDeadlineExceeded, both
  // naming it; kAborted stopped.
  static Result<std::unique_ptr<SharedPeers>> agree(
      const Place& place, const std::vector<std::unique_ptr<Connection>>& connections,
      std::shared_ptr<wire::SharedSegment> segment, const StopFlag& stop, std::chrono::milliseconds within);
  ~SharedPeers();
  SharedPeers(const SharedPeers&) = delete;
  SharedPeers& operator=(const SharedPeers&) = delete;

  bool any() const { return any_; }
  bool with(std::uint32_t rank) const { return peers_[rank].segment != nullptr; }

  // Floats that peers can read: `vector` itself, or as many that it passes through, where it lies elsewhere.
  std::span<float> readable(std::span<float> vector);

  // What is offered to a peer so far, and what of it the peer has taken.
  std::uint64_t offered_to(std::uint32_t rank) const { return peers_[rank].offered; }
  std::uint64_t taken_by(std::uint32_t rank) const;
  // `floats` lie in the segment.
  void offer(std::uint32_t rank, const RowHead& head, std::span<const float> floats);
  // The next row of a peer that has not been taken.
  struct Offered {
    RowHead head;
    std::span<const float> floats;
  };
  std::optional<Offered> offered_by(std::uint32_t rank) const;
  void take(std::uint32_t rank);

  // From here to wakes() whoever offers or takes something sends a byte.
  void sleeps();
  void wakes();

 private:
  struct Note;
  struct Board;
  struct Peer {
    std::shared_ptr<const wire::MappedSegment> segment;
    const Board* board = nullptr;   // the peer's
    const Note* inbound = nullptr;  // what it offers to this rank
    Note* outbound = nullptr;       // what this rank offers to it
    std::uint64_t offered = 0;
    std::uint64_t taken = 0;  // of the peer's
    Connection* connection = nullptr;
  };
  struct Offer;

  SharedPeers(std::uint32_t rank, std::size_t ranks, std::shared_ptr<wire::SharedSegment> segment);
  Offer own_offer() const;
  bool map(std::uint32_t rank, const Offer& offer, Connection& connection);
  void wake(const Peer& peer) const;

  const std::uint32_t rank_;
  const std::size_t ranks_;
  const std::shared_ptr<wire::SharedSegment> segment_;
  Board* board_ = nullptr;  // in the segment, with a note to each rank after it
  std::vector<Peer> peers_;
  bool any_ = false;
  std::span<float> through_;  // in the segment
};

}  // namespace paceline::mesh
