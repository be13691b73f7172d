#include "worker/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/assert.h"
#include "common/process/stop_signals.h"

namespace paceline {
namespace {

constexpr int kExitAtOnce = 1;

void wait_for_signals(const sigset_t& set, int wakeup, const std::function<void(int)>& first) {
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  PACELINE_ASSERT(signals >= 0, "signalfd: errno " + std::to_string(errno));
  StopRequests requests;
  for (;;) {
    std::array<pollfd, 2> ready = {pollfd{signals, POLLIN, 0}, pollfd{wakeup, POLLIN, 0}};
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;  // EINTR
    if ((ready[1].revents & POLLIN) != 0) break;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) continue;
    const int number = static_cast<int>(info.ssi_signo);
    const StopRequests::Then then = requests.asked(number);
    if (then == StopRequests::Then::kEndAtOnce) ::_exit(kExitAtOnce);
    if (then == StopRequests::Then::kStop) first(number);
  }
  ::close(signals);
}

}  // namespace

BlockedSignals::BlockedSignals() : set_() {
  sigemptyset(&set_);
  for (const int number : stop_signals()) sigaddset(&set_, number);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
}

SignalThread::SignalThread(const BlockedSignals& signals, std::function<void(int)> first)
    : wakeup_(::eventfd(0, EFD_CLOEXEC)) {
  PACELINE_ASSERT(wakeup_ >= 0, "eventfd: errno " + std::to_string(errno));
  thread_ = std::thread([set = signals.set(), wakeup = wakeup_, call = std::move(first)] {
    wait_for_signals(set, wakeup, call);
  });
}

SignalThread::~SignalThread() {
  const std::uint64_t one = 1;
  (void)!::write(wakeup_, &one, sizeof one);
  thread_.join();
  ::close(wakeup_);
}

}  // namespace paceline
