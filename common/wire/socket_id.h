// SocketId: a connection's socket, told from every other one, so that a connection that a library owns can be
// broken without harm to another. Descriptors are given out again as soon as they are closed; the inode of a
// socket is its own for as long as it is open.
//
// Thread: any; whoever owns the descriptor may close it at any time.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

namespace paceline::wire {

// A place for the duplicate of a descriptor in a process that has none free: a flood of connections may have
// taken them all, and then it is the more needed. Kept open meanwhile on nothing.
class SpareDescriptor {
 public:
  SpareDescriptor()
      : nothing_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
        place_(nothing_ < 0 ? -1 : fcntl(nothing_, F_DUPFD_CLOEXEC, 0)) {}
  ~SpareDescriptor() {
    if (place_ >= 0) close(place_);
    if (nothing_ >= 0) close(nothing_);
  }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  // The duplicate, or -1 where there is none to be had (EBADF: of what is closed already).
  int put(int descriptor) const { return place_ < 0 ? -1 : put_at(descriptor, place_); }
  void clear() const { put_at(nothing_, place_); }

 private:
  static int put_at(int descriptor, int place) {
    int got = -1;
    do {
      got = dup3(descriptor, place, O_CLOEXEC);
    } while (got < 0 && (errno == EINTR || errno == EBUSY));
    return got;
  }
  int nothing_;
  int place_;
};

class SocketId {
 public:
  // Nothing when there is no such descriptor.
  static std::optional<SocketId> of(int descriptor) {
    struct stat about = {};
    if (descriptor < 0 || fstat(descriptor, &about) != 0) return std::nullopt;
    return SocketId(descriptor, about.st_dev, about.st_ino);
  }

  bool operator==(const SocketId&) const = default;

  enum class ShutDown {
    kDone,
    kClosedAlready,
    kNoDescriptor,  // this process may open no more: it may be tried again
  };

  // Ends the connection in both directions, for its owner as if the network had broken it. What was sent
  // before still reaches the peer.
  ShutDown shut_down() const { return shut_down(Unsent::kIsDelivered); }

  // The same, and the peer is told by a reset: over TCP at once, and else as soon as the owner closes. A peer
  // that sends more than is read would not see an orderly end, since behind a closed window it waits for
  // minutes; and one that is in its handshake would take it for a refusal (handshake.h).
  ShutDown reset() const { return shut_down(Unsent::kIsDropped); }

  // The same, also where this process can open no more files.
  ShutDown reset(const SpareDescriptor& spare) const {
    const int duplicate = spare.put(descriptor_);
    if (duplicate < 0) return reset();
    const bool same = end_if_same(duplicate, Unsent::kIsDropped);
    spare.clear();
    return same ? ShutDown::kDone : ShutDown::kClosedAlready;
  }

 private:
  enum class Unsent { kIsDelivered, kIsDropped };

  SocketId(int descriptor, dev_t device, ino_t inode)
      : descriptor_(descriptor), device_(device), inode_(inode) {}

  // What is looked at and shut down is a duplicate, which nobody can close meanwhile.
  ShutDown shut_down(Unsent unsent) const {
    const int duplicate = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) return errno == EBADF ? ShutDown::kClosedAlready : ShutDown::kNoDescriptor;
    const bool same = end_if_same(duplicate, unsent);
    close(duplicate);
    return same ? ShutDown::kDone : ShutDown::kClosedAlready;
  }

  bool end_if_same(int duplicate, Unsent unsent) const {
    const std::optional<SocketId> there = of(duplicate);
    const bool same = there && there->device_ == device_ && there->inode_ == inode_;
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    if (same && unsent == Unsent::kIsDropped) {
      setsockopt(duplicate, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};  // which no other kind of socket takes
      (void)!connect(duplicate, &nobody, sizeof nobody);
    }
    if (same) shutdown(duplicate, SHUT_RDWR);
    return same;
  }

  int descriptor_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace paceline::wire
