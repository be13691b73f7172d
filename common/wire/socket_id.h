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

class SocketId {
 public:
  // Nothing when there is no such descriptor.
  static std::optional<SocketId> of(int descriptor) {
    struct stat about = {};
    if (descriptor < 0 || fstat(descriptor, &about) != 0) return std::nullopt;
    return SocketId(descriptor, about.st_dev, about.st_ino);
  }

  bool operator==(const SocketId&) const = default;

  // Ends the connection in both directions, for its owner as if the network had broken it. What is looked at
  // and shut down is a duplicate, which nobody can close meanwhile.
  enum class ShutDown {
    kDone,
    kClosedAlready,
    kNoDescriptor,  // this process may open no more: it may be tried again
  };
  ShutDown shut_down() const {
    const int duplicate = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) return errno == EBADF ? ShutDown::kClosedAlready : ShutDown::kNoDescriptor;
    const std::optional<SocketId> there = of(duplicate);
    const bool same = there && there->device_ == device_ && there->inode_ == inode_;
    if (same) shutdown(duplicate, SHUT_RDWR);
    close(duplicate);
    return same ? ShutDown::kDone : ShutDown::kClosedAlready;
  }

 private:
  SocketId(int descriptor, dev_t device, ino_t inode)
      : descriptor_(descriptor), device_(device), inode_(inode) {}

  int descriptor_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace paceline::wire
