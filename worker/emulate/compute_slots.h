// Compute slots: `emulate.cores` of them, shared by all node processes that emulate a cluster on this
// machine. Who computes a real gradient holds one, so that sixteen emulated workers do not fight for two
// cores and a gradient takes as long beside them as alone (docs/CONFIG.md, Choosing emulate.base_step).
//
// A slot is an exclusive flock(2) on a file compute-slot-<n> of the run directory, there while the run is:
// the kernel gives it back when its process dies. Who waits is woken by inotify(7): releasing writes a byte,
// dying closes the file. A kernel that closes a dead process's file announces that just before it drops the
// lock, hence one look more after kPollEvery.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/status.h"

namespace paceline {

class ComputeSlots;

// Holds a slot until destroyed. Movable; empty when nothing is emulated.
class ComputeSlot {
 public:
  ComputeSlot() = default;
  ComputeSlot(ComputeSlots* slots, std::size_t index) : slots_(slots), index_(index) {}
  ComputeSlot(ComputeSlot&& other) noexcept : slots_(other.slots_), index_(other.index_) {
    other.slots_ = nullptr;
  }
  ComputeSlot& operator=(ComputeSlot&& other) noexcept;
  ~ComputeSlot();

 private:
  ComputeSlots* slots_ = nullptr;
  std::size_t index_ = 0;
};

// The slots as this process sees them. Thread: every member may be called from any thread. Must outlive its
// slots.
class ComputeSlots {
 public:
  static constexpr std::chrono::milliseconds kPollEvery{50};

  // Opens (creates) `directory`/compute-slot-0 ... `count` - 1. Errors: kUnavailable, naming the file and the
  // reason.
  static Result<std::unique_ptr<ComputeSlots>> open(const std::string& directory, std::size_t count);
  ~ComputeSlots();
  ComputeSlots(const ComputeSlots&) = delete;
  ComputeSlots& operator=(const ComputeSlots&) = delete;

  // Waits for a free slot. Errors: kAborted after stop(); kDeadlineExceeded when none was free within
  // `deadline`.
  Result<ComputeSlot> acquire(std::chrono::nanoseconds deadline);

  // Removes the files, to be called once every process of the run has opened them (all keep theirs). A file
  // of another process's is left alone.
  void remove_files();

  // Releases every waiter, now and later, with kAborted. Slots that are held stay held.
  void stop();

 private:
  friend class ComputeSlot;
  struct Slot {
    std::string path;
    int file = -1;
    bool held = false;  // by a thread of this process: flock cannot tell its threads apart
  };

  ComputeSlots() = default;
  bool try_acquire_locked(std::size_t& index);
  void wait_for_release(std::chrono::nanoseconds at_most);
  void release(std::size_t index);

  std::mutex mutex_;
  std::condition_variable turn_;
  bool someone_watches_ = false;  // one thread of a process watches the files, the others wait for their turn
  bool stopped_ = false;
  std::vector<Slot> slots_;
  int watch_ = -1;   // inotify
  int wakeup_ = -1;  // eventfd, written by stop()
};

}  // namespace paceline
