// The program PACELINE_COUNTING_NODE (counting_node.cc): a node of a test's run as a process of its own,
// which dies or stands still as its seed says.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"

namespace paceline::testing {

// Thread: one at a time.
class OtherProcess {
 public:
  // Started with these arguments.
  explicit OtherProcess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), PACELINE_COUNTING_NODE);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    PACELINE_ASSERT(::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) == 0,
                    std::string("cannot start ") + argv[0]);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    if (pid_ != 0) bury(/*dies=*/true);
  }

  // Waits for its end, which is near: the run is over, or it `dies` (and is helped, if it only stands still).
  // Its wait status.
  int bury(bool dies) {
    if (dies) ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace paceline::testing
