// A connection to another node: bytes in order, of a TCP socket; in a run with keys sealed (seal.h).
//
// Sealed, on the wire: frames, each a length (4 bytes, little endian) and as many sealed bytes, which hold up to
// 64 KiB. What has been sealed leaves before anything else is, and what has come is opened when its frame is whole.
//
// Errors are kUnavailable, without the other's name: "closed its connection", or what was changed on the way
// (is_changed()).
//
// Thread: one. Memory: sealed, three frames.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "common/files/descriptor.h"
#include "common/status.h"
#include "worker/mesh/seal.h"

namespace paceline::mesh {

class Connection {
 public:
  // `socket`: non-blocking. `seal`, proven by both: null: the run has no keys.
  explicit Connection(Descriptor socket, std::unique_ptr<Seal> seal = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // To wait at, once receive() has returned 0, or nothing more is held: opened, and not given out.
  int descriptor() const { return socket_.get(); }
  bool holds_more() const;

  // Of a frame that has come in part, how many bytes have: of which receive() has said nothing yet.
  std::size_t pending() const;

  // Some of the pieces, in their order, at least a byte in all; how many bytes. 0: nothing goes now. Then the same
  // bytes, or more, are handed in before any others: they may have left in part.
  Result<std::size_t> send(std::span<const iovec> pieces);
  // Up to so many bytes; 0: there is nothing now.
  Result<std::size_t> receive(void* into, std::size_t bytes);
  // All that has come already, whatever it is, is dropped; receive()'s error.
  Status drain();
  // The other end has closed, and all that came before has been given out.
  bool is_closed() const;
  // What has come is not what was sent. The other end may be there all the same.
  bool is_changed() const;

 private:
  struct Frames;
  Result<std::size_t> send_now(std::span<const iovec> pieces) const;
  Result<std::size_t> receive_now(void* into, std::size_t bytes) const;
  Result<std::size_t> next_frame();
  std::size_t give(std::byte* into, std::size_t bytes);

  const Descriptor socket_;
  const std::unique_ptr<Seal> seal_;
  const std::unique_ptr<Frames> frames_;  // null where nothing is sealed
};

}  // namespace paceline::mesh
