#include "worker/client/io_turns.h"

#include <boost/asio/executor_work_guard.hpp>
#include <utility>

namespace paceline {

void IoTurns::run() {
  const auto until_stopped = boost::asio::make_work_guard(io_);
  if (!shares_) {
    io_.run();
    return;
  }
  std::unique_lock lock(mutex_);
  while (!io_.stopped()) {
    runs_ = Runs::kOwn;
    lock.unlock();
    while (io_.run_one() > 0 && !is_served()) {
    }
    lock.lock();
    runs_ = Runs::kNobody;
    stand_aside(lock);
  }
}

bool IoTurns::is_served() {
  const std::lock_guard lock(mutex_);
  return waits_for_ != nullptr && (*waits_for_)();
}

// Looks now and then whether turns are still taken, since telling it of each would be a wake-up again. One that was
// there at the last look, too, may last: whoever has it says when it is over.
void IoTurns::stand_aside(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const std::int64_t seen = turns_;
    over_.wait_for(lock, kAside);
    if (turns_ != seen) continue;
    sleeps_ = true;
    over_.wait(lock, [this] { return runs_ == Runs::kNobody; });
    sleeps_ = false;
    return;
  }
}

bool IoTurns::take() {
  const std::lock_guard lock(mutex_);
  if (runs_ != Runs::kNobody || io_.stopped()) return false;
  runs_ = Runs::kWaiter;
  ++turns_;
  return true;
}

void IoTurns::give_back() {
  const std::lock_guard lock(mutex_);
  runs_ = Runs::kNobody;
  if (sleeps_) over_.notify_one();
}

IoTurns::Wait::Wait(IoTurns& turns, std::function<bool()> done) : turns_(turns), done_(std::move(done)) {
  if (!turns_.shares_) return;
  if (turns_.take()) {
    run();
    return;
  }
  const std::lock_guard lock(turns_.mutex_);
  turns_.waits_for_ = &done_;
}

// A handler may throw.
void IoTurns::Wait::run() {
  struct Turn {
    IoTurns& turns;
    ~Turn() { turns.give_back(); }
  } const turn{turns_};
  while (!done_() && turns_.io_.run_one() > 0) {
  }
}

IoTurns::Wait::~Wait() {
  if (!turns_.shares_) return;
  const std::lock_guard lock(turns_.mutex_);
  turns_.waits_for_ = nullptr;
}

}  // namespace paceline
