// The signals that ask a program for its orderly end, and which of them count as asking twice.
//
//   SIGINT, SIGTERM   the first asks for the orderly end, the second ends the process at once. Whoever starts
//                     the process may have it ignore SIGTERM, and ask by SIGHUP instead: Slurm sends SIGTERM
//                     several times over, which is not insisting (scripts/lib/slurm_task.sh)
//   SIGHUP            asks for the orderly end, unless whoever started the process has it ignore SIGHUP
//                     (nohup). It never counts as the second: a terminal that closes may send several, and a
//                     service manager sends it beside SIGTERM, in any order
//
// Thread: any.
#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace paceline {

// SIGINT, and of SIGTERM and SIGHUP what is not ignored. To be asked before anything changes what signals do.
// SIGINT counts even where it is ignored: a shell has every program that it starts in the background do that.
inline std::vector<int> stop_signals() {
  std::vector<int> signals{SIGINT};
  for (const int number : {SIGTERM, SIGHUP}) {
    struct sigaction now = {};
    const bool is_ignored = sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!is_ignored) signals.push_back(number);
  }
  return signals;
}

// What becomes of a program that is asked with `number`, one signal after another.
class StopRequests {
 public:
  enum class Then {
    kStop,       // in order
    kEndAtOnce,  // whatever is lost
    kNothing     // it is stopping already
  };
  Then asked(int number) {
    if (number != SIGHUP && insisted_++ > 0) return Then::kEndAtOnce;
    return std::exchange(stopping_, true) ? Then::kNothing : Then::kStop;
  }

 private:
  int insisted_ = 0;  // signals other than SIGHUP
  bool stopping_ = false;
};

}  // namespace paceline
