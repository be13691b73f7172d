#include "worker/mesh/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "common/assert.h"
#include "worker/mesh/peer_socket.h"

namespace paceline::mesh {
namespace {

// Of a frame: what is sealed stays in the processor's cache. A quarter of a segment's floats (common/schedule), and a
// head.
constexpr std::size_t kPlainMax = 64 * 1024 + 64;
constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kFrameMax = kLengthBytes + kPlainMax + Seal::kOverheadBytes;

Status spoilt() {
  return unavailable("has sent what its key does not fit: somebody has changed it on the way");
}

}  // namespace

struct Connection::Frames {
  std::array<std::byte, kFrameMax> out;
  std::size_t out_bytes = 0;  // of the frame that leaves
  std::size_t left = 0;       // of these, that have
  std::size_t plain_out = 0;  // what it holds

  std::array<std::byte, kFrameMax> in;
  std::size_t in_bytes = 0;  // of the frame that comes
  std::array<std::byte, kPlainMax> plain;
  std::size_t plain_bytes = 0;  // opened
  std::size_t given = 0;        // of these, to whom they are for
  bool is_spoilt = false;

  std::size_t length() const {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, in.data(), sizeof bytes);
    return bytes;
  }
};

Connection::Connection(Descriptor socket, std::unique_ptr<Seal> seal)
    : socket_(std::move(socket)),
      seal_(std::move(seal)),
      frames_(seal_ == nullptr ? nullptr : std::make_unique<Frames>()) {}

Connection::~Connection() = default;

Result<std::size_t> Connection::send_now(std::span<const iovec> pieces) const {
  msghdr message = {};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  const int error = errno;  // only of a call that failed
  if (error == EAGAIN || error == EINTR) return std::size_t{0};
  if (error == EPIPE || error == ECONNRESET) return unavailable("closed its connection");
  return unavailable("cannot be sent to: " + system_error(error));
}

// recv(), of which nothing at all means that the other end is gone.
Result<std::size_t> Connection::receive_now(void* into, std::size_t bytes) const {
  const ssize_t got = recv(socket_.get(), into, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return unavailable("closed its connection");
  const int error = errno;
  if (error == EAGAIN || error == EINTR) return std::size_t{0};
  if (error == ECONNRESET) return unavailable("closed its connection");
  return unavailable("cannot be read from: " + system_error(error));
}

Result<std::size_t> Connection::send(std::span<const iovec> pieces) {
  if (seal_ == nullptr) return send_now(pieces);
  Frames& frames = *frames_;
  if (frames.plain_out == 0) {
    std::array<std::byte, kPlainMax> gathered;
    std::span<const std::byte> plain;
    for (const iovec& piece : pieces) {
      const auto* const bytes = static_cast<const std::byte*>(piece.iov_base);
      const std::size_t some = std::min(piece.iov_len, kPlainMax - plain.size());
      if (some == 0) continue;
      if (plain.empty() && some == kPlainMax) {
        plain = {bytes, some};  // as most are, of one piece
        break;
      }
      std::memcpy(gathered.data() + plain.size(), bytes, some);
      plain = std::span(gathered).first(plain.size() + some);
    }
    const auto sealed = static_cast<std::uint32_t>(plain.size() + Seal::kOverheadBytes);
    std::memcpy(frames.out.data(), &sealed, sizeof sealed);
    seal_->seal(plain, std::span(frames.out).subspan(kLengthBytes, sealed));
    frames.out_bytes = kLengthBytes + sealed;
    frames.left = 0;
    frames.plain_out = plain.size();
  }
  std::size_t handed = 0;
  for (const iovec& piece : pieces) handed += piece.iov_len;
  PACELINE_ASSERT(handed >= frames.plain_out, "a frame that leaves is longer than what is handed in again");
  const iovec rest{frames.out.data() + frames.left, frames.out_bytes - frames.left};
  PACELINE_ASSIGN_OR_RETURN(const std::size_t sent, send_now({&rest, 1}));
  frames.left += sent;
  return frames.left < frames.out_bytes ? std::size_t{0} : std::exchange(frames.plain_out, 0);
}

// How many sealed bytes the frame has that has come; 0: it is not whole.
Result<std::size_t> Connection::next_frame() {
  Frames& frames = *frames_;
  for (;;) {
    if (frames.is_spoilt) return spoilt();
    const bool has_length = frames.in_bytes >= kLengthBytes;
    const std::size_t end = has_length ? kLengthBytes + frames.length() : kLengthBytes;
    if (has_length && frames.in_bytes == end) return frames.length();
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got,
                              receive_now(frames.in.data() + frames.in_bytes, end - frames.in_bytes));
    if (got == 0) return std::size_t{0};
    frames.in_bytes += got;
    if (has_length || frames.in_bytes < kLengthBytes) continue;
    frames.is_spoilt = frames.length() <= Seal::kOverheadBytes || frames.length() > kFrameMax - kLengthBytes;
  }
}

std::size_t Connection::give(std::byte* into, std::size_t bytes) {
  Frames& frames = *frames_;
  const std::size_t some = std::min(bytes, frames.plain_bytes - frames.given);
  std::memcpy(into, frames.plain.data() + frames.given, some);
  frames.given += some;
  return some;
}

Result<std::size_t> Connection::receive(void* into, std::size_t bytes) {
  if (seal_ == nullptr) return receive_now(into, bytes);
  Frames& frames = *frames_;
  auto* const target = static_cast<std::byte*>(into);
  if (holds_more()) return give(target, bytes);
  PACELINE_ASSIGN_OR_RETURN(const std::size_t sealed, next_frame());
  if (sealed == 0) return std::size_t{0};
  const std::size_t plain = sealed - Seal::kOverheadBytes;
  const bool fits = plain <= bytes;
  if (!seal_->open(std::span(frames.in).subspan(kLengthBytes, sealed),
                   {fits ? target : frames.plain.data(), plain})) {
    frames.is_spoilt = true;
    return spoilt();
  }
  frames.in_bytes = 0;
  if (fits) return plain;
  frames.plain_bytes = plain;
  frames.given = 0;
  return give(target, bytes);
}

bool Connection::holds_more() const { return frames_ != nullptr && frames_->given < frames_->plain_bytes; }

std::size_t Connection::pending() const { return frames_ == nullptr ? 0 : frames_->in_bytes; }

bool Connection::is_changed() const { return frames_ != nullptr && frames_->is_spoilt; }

Status Connection::drain() {
  std::array<std::byte, 64> bytes;
  for (;;) {
    const Result<std::size_t> got = receive(bytes.data(), bytes.size());
    if (!got.is_ok()) return got.status();
    if (*got == 0) return Status::ok();
  }
}

bool Connection::is_closed() const {
  if (holds_more()) return false;
  char byte = 0;
  const ssize_t got = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && (errno == ECONNRESET || errno == EPIPE));
}

}  // namespace paceline::mesh
