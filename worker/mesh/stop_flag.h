// A stop that also ends a wait in poll(). Thread: any.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "common/assert.h"
#include "common/files/descriptor.h"

namespace paceline::mesh {

class StopFlag {
 public:
  StopFlag() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    PACELINE_ASSERT(event_.is_open(), "no eventfd");
  }

  void set() {
    stopped_ = true;
    const std::uint64_t one = 1;
    // It fails only when it is set beyond counting.
    static_cast<void>(::write(event_.get(), &one, sizeof one));
  }
  bool is_set() const { return stopped_; }
  // As if it had not been, for who is woken by it again and again.
  void forget() {
    std::uint64_t count = 0;
    static_cast<void>(::read(event_.get(), &count, sizeof count));
    stopped_ = false;
  }
  // Readable once it is set.
  int descriptor() const { return event_.get(); }

 private:
  std::atomic<bool> stopped_{false};
  Descriptor event_;
};

}  // namespace paceline::mesh
