// The signals that ask for the end (common/process/stop_signals.h) as ordinary calls: a daemon's threads
// never run in a signal handler.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace paceline {

// Keeps them from the calling thread and from every thread it starts afterwards. SIGUSR1 and SIGUSR2, which
// ask a server what it waits for and to save a checkpoint, are ignored: whoever sends them to all daemons
// means no harm to the nodes.
class BlockedSignals {
 public:
  BlockedSignals();
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_;
};

// Waits for them on a thread of its own: the first calls `first` there, one that insists ends the process at
// once with the status of a failed run. Until destroyed.
class SignalThread {
 public:
  SignalThread(const BlockedSignals& signals, std::function<void(int signal)> first);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  int wakeup_;  // eventfd: written by the destructor
  std::thread thread_;
};

}  // namespace paceline
