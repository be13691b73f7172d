// SIGINT and SIGTERM as ordinary calls: a daemon's threads never run in a signal handler.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace paceline {

// Keeps SIGINT and SIGTERM from the calling thread and from every thread it starts afterwards. SIGUSR1, which
// asks a server what it waits for, is ignored: whoever sends it to all daemons means no harm to the nodes.
class BlockedSignals {
 public:
  BlockedSignals();
  const sigset_t& set() const { return set_; }

 private:
  sigset_t set_;
};

// Waits for them on a thread of its own: the first calls `first` there, the second ends the process at once
// with the status of a failed run. Until destroyed.
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
