// The processes of a sweep: each point is a process of its own, so that what one takes is given back when it
// ends, and one that fails, or that the system kills for its memory, ends no other.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "common/status.h"

namespace paceline::sweep {

// While one lives, the calling thread's SIGCHLD and the signals that ask for the end
// (common/process/stop_signals.h) are blocked and taken by wait(), and those of the latter that come while it
// ends its processes say nothing new. Its processes end with it, and with this process, however that ends.
// Thread: the one that made it.
class Processes {
 public:
  Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes();  // kills what runs and waits for it

  // Starts `command` (an absolute path and its arguments) with `log` for its output and error output. A
  // terminal's Ctrl-C does not reach it. Errors: kUnavailable, with the system's reason.
  [[nodiscard]] Status start(std::size_t task, const std::vector<std::string>& command,
                             const std::filesystem::path& log);
  std::size_t running() const { return running_.size(); }

  struct LocalEvent {
    enum class Kind { kEnded, kStopped, kNothing };
    Kind kind = Kind::kNothing;
    std::size_t task = 0;  // that ended
    std::string how;       // empty: with status 0; else "exit status 1", "killed by signal 9"
  };
  // A signal that asks for the end and is there, before anything else, however many processes have ended;
  // else the next end of a process, the next such signal, or nothing within `at_most`.
  LocalEvent wait(std::chrono::milliseconds at_most);

 private:
  struct Running {
    pid_t pid;
    std::size_t task;
  };
  bool take_ended(LocalEvent& event);
  bool take_stops();  // without waiting; whether there were any

  std::vector<Running> running_;
  sigset_t waited_for_, stops_, before_;
};

}  // namespace paceline::sweep
