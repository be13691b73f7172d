// Sharings: with which peers of one socket memory is shared, and when they are told what was let go of.
//
//   a payload is dropped, on any thread ── wake ──► due? ── yes ──► said, in a message of its own
//                                                    └─ no: a message that leaves anyway says it, or the
//                                                       timer, for all peers, after Sharing::kReleaseAfter
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/sharing.h"
#include "common/wire/transport.h"

namespace paceline::wire {

class Sharings : public std::enable_shared_from_this<Sharings> {
 public:
  // Sends a message without a body; whether it left. Not called once close() has returned.
  using Send = std::function<bool(const PeerId& to, const Beside& beside)>;

  Sharings(boost::asio::io_context& io, Send send) : io_(io), release_timer_(io), send_(std::move(send)) {}

  // Null where nothing is shared with it.
  Sharing* with(const PeerId& peer) const;
  // From now on; the one that there is where there is one. Arguments: as Sharing's.
  Sharing& begin(const PeerId& peer, const std::shared_ptr<SharedSegment>& memory,
                 std::int64_t theirs_bytes_max, const Pin& pin = {});
  // As begin(), with one whose segment is known; if that cannot be mapped nothing is shared. Errors:
  // Sharing::map.
  Status begin(const PeerId& peer, const std::shared_ptr<SharedSegment>& memory,
               std::int64_t theirs_bytes_max, const SegmentRef& theirs, const Pin& pin = {});
  // RouterSocket::shares_memory() and unmap().
  Status state(const PeerId& peer) const;
  void unmap(const PeerId& peer);
  // What is lent to the peer comes back.
  void end(const PeerId& peer) { sharings_.erase(peer); }
  // Tells each what was let go of, and ends with all.
  void close();

  // The peer's payload of that encoding; nothing where it is of no interest any more. Errors:
  // kInvalidArgument nothing of it can lie there.
  Result<std::optional<Payload>> borrow(const PeerId& from, const Region& region, Encoding encoding) const;

 private:
  void something_let_go(const PeerId& peer);
  void send_released(const PeerId& peer, Sharing& sharing);

  boost::asio::io_context& io_;
  boost::asio::steady_timer release_timer_;
  bool let_go_is_timed_ = false;
  bool closed_ = false;
  std::unordered_map<PeerId, std::unique_ptr<Sharing>> sharings_;
  const Send send_;
};

}  // namespace paceline::wire
