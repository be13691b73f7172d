#include "worker/emulate/compute_slots.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace paceline {
namespace {

Status cannot(const std::string& what, const std::string& path) {
  return unavailable("compute slots: cannot " + what + " " + path + ": " + std::strerror(errno));
}

}  // namespace

ComputeSlot& ComputeSlot::operator=(ComputeSlot&& other) noexcept {
  std::swap(slots_, other.slots_);
  std::swap(index_, other.index_);
  return *this;
}

ComputeSlot::~ComputeSlot() {
  if (slots_ != nullptr) slots_->release(index_);
}

Result<std::unique_ptr<ComputeSlots>> ComputeSlots::open(const std::string& directory, std::size_t count) {
  PACELINE_ASSERT(count >= 1, "emulate.cores must be at least 1");
  std::unique_ptr<ComputeSlots> slots(new ComputeSlots);
  slots->watch_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (slots->watch_ < 0) return cannot("watch", directory);
  slots->wakeup_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (slots->wakeup_ < 0) return cannot("make an event for", directory);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = directory + "/compute-slot-" + std::to_string(i);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return cannot("open", path);
    slots->slots_.push_back({path, file, false});
    // A file system without locks is found now, not as slots that are never free.
    if (::flock(file, LOCK_SH | LOCK_NB) == 0) {
      (void)::flock(file, LOCK_UN);
    } else if (errno != EWOULDBLOCK) {
      return cannot("lock", path);
    }
    if (::inotify_add_watch(slots->watch_, path.c_str(), IN_MODIFY | IN_CLOSE_WRITE) < 0)
      return cannot("watch", path);
  }
  return slots;
}

ComputeSlots::~ComputeSlots() {
  for (const Slot& slot : slots_) {
    PACELINE_ASSERT(!slot.held, "a compute slot outlives its ComputeSlots");
    ::close(slot.file);
  }
  if (watch_ >= 0) ::close(watch_);
  if (wakeup_ >= 0) ::close(wakeup_);
}

Result<ComputeSlot> ComputeSlots::acquire(std::chrono::nanoseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::size_t index = 0;
    const auto left = until - std::chrono::steady_clock::now();
    if (stopped_) return aborted("compute slots: stopped");
    if (!someone_watches_ && try_acquire_locked(index)) {
      turn_.notify_one();  // the next in line watches, or gets a slot that is free as well
      return ComputeSlot(this, index);
    }
    if (left <= std::chrono::nanoseconds::zero()) {
      turn_.notify_one();
      return deadline_exceeded("compute slots: all " + std::to_string(slots_.size()) + " were taken for " +
                               std::to_string(std::chrono::ceil<std::chrono::seconds>(deadline).count()) +
                               " s");
    }
    if (someone_watches_) {
      turn_.wait_until(lock, until);
      continue;
    }
    someone_watches_ = true;
    lock.unlock();
    wait_for_release(std::min<std::chrono::nanoseconds>(left, kPollEvery));
    lock.lock();
    someone_watches_ = false;
  }
}

bool ComputeSlots::try_acquire_locked(std::size_t& index) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].held || ::flock(slots_[i].file, LOCK_EX | LOCK_NB) != 0) continue;
    slots_[i].held = true;
    index = i;
    return true;
  }
  return false;
}

void ComputeSlots::wait_for_release(std::chrono::nanoseconds at_most) {
  std::array<pollfd, 2> ready = {pollfd{watch_, POLLIN, 0}, pollfd{wakeup_, POLLIN, 0}};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  (void)::poll(ready.data(), ready.size(), static_cast<int>(ms));
  // Which file changed does not matter: all are tried.
  alignas(inotify_event) std::array<char, 4096> events;
  while (::read(watch_, events.data(), events.size()) > 0) {
  }
}

void ComputeSlots::release(std::size_t index) {
  {
    std::lock_guard lock(mutex_);
    slots_[index].held = false;
    (void)::flock(slots_[index].file, LOCK_UN);
  }
  // The byte wakes whoever watches, in this process or another.
  const char byte = 0;
  (void)!::pwrite(slots_[index].file, &byte, 1, 0);
}

void ComputeSlots::remove_files() {
  for (const Slot& slot : slots_) {
    struct stat mine{};
    struct stat there{};
    if (::fstat(slot.file, &mine) != 0 || ::stat(slot.path.c_str(), &there) != 0) continue;
    if (mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) ::unlink(slot.path.c_str());
  }
}

void ComputeSlots::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  const std::uint64_t one = 1;
  (void)!::write(wakeup_, &one, sizeof one);
  turn_.notify_all();
}

}  // namespace paceline
