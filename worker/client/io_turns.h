// Whose turn it is to run a client's I/O loop. Usually that is a thread of its own, which never computes: heartbeats
// leave and servers are heard whatever else the node does. But each message that one thread hands to another is a
// wake-up of ten microseconds and more, and with a small model a round is little else. So the node's only training
// thread runs the loop itself while it waits for what comes over it:
//
//   own thread runs the loop ── what a thread waited for has come ──> nobody does: the own thread stands aside
//   nobody does              ── a thread waits ─────────────────────> that thread runs it, until it has what it needs
//   nobody does              ── for longer than kAside ─────────────> the own thread runs it
//
// What is posted while nobody runs the loop waits for kAside at most.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace paceline {

class IoTurns {
 public:
  static constexpr std::chrono::milliseconds kAside{2};

  // `shares`: whether the own thread ever stands aside. `io` outlives this.
  IoTurns(boost::asio::io_context& io, bool shares) : io_(io), shares_(shares) {}

  // Until the loop is stopped. Thread: the own one.
  void run();

  // For as long as it lives the calling thread waits for `done`. After its construction `done` is true, or another
  // thread runs the loop: whoever made this has to wait by other means, too. Of one thread at a time. `done` is called
  // by both, and locks for itself; whoever makes it true outside of the loop posts something after that.
  class Wait {
   public:
    Wait(IoTurns& turns, std::function<bool()> done);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    void run();

    IoTurns& turns_;
    const std::function<bool()> done_;
  };

 private:
  enum class Runs { kOwn, kWaiter, kNobody };

  bool take();
  void give_back();
  bool is_served();
  void stand_aside(std::unique_lock<std::mutex>& lock);

  boost::asio::io_context& io_;
  const bool shares_;
  std::mutex mutex_;
  std::condition_variable over_;  // the turn that `sleeps_` is about
  Runs runs_ = Runs::kOwn;
  std::int64_t turns_ = 0;  // of waiting threads
  bool sleeps_ = false;     // the own thread, until such a turn is over
  const std::function<bool()>* waits_for_ =
      nullptr;  // what a thread waits for while the own one runs the loop
};

}  // namespace paceline
