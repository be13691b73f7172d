#include "sweep/processes.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/process/stop_signals.h"

namespace paceline::sweep {
namespace {

// Between fork() and exec(), in the child: calls that are safe there only.
[[noreturn]] void become(char* const* command, int log, pid_t parent, const sigset_t& signals) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it ended before it could be asked
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(log, 1) < 0 || ::dup2(log, 2) < 0) ::_exit(127);
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  ::execv(command[0], command);
  ::_exit(127);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Processes::Processes() {
  ::signal(SIGCHLD, SIG_DFL);  // ignored, ends would not be told
  ::sigemptyset(&stops_);
  for (const int number : stop_signals()) ::sigaddset(&stops_, number);
  waited_for_ = stops_;
  ::sigaddset(&waited_for_, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &waited_for_, &before_);
}

Processes::~Processes() {
  for (const Running& process : running_) ::kill(process.pid, SIGKILL);
  for (const Running& process : running_) {
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  take_stops();  // they would end this process before it has said what is finished
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Status Processes::start(std::size_t task, const std::vector<std::string>& command,
                        const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return unavailable("cannot write " + log.string() + ": " + std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments.data(), file, parent, before_);
  const int error = errno;
  ::close(file);
  if (pid < 0) return unavailable(std::string("cannot start a process: ") + std::strerror(error));
  running_.push_back({pid, task});
  return Status::ok();
}

bool Processes::take_ended(LocalEvent& event) {
  for (auto process = running_.begin(); process != running_.end(); ++process) {
    int status = 0;
    if (::waitpid(process->pid, &status, WNOHANG) != process->pid) continue;
    event = {LocalEvent::Kind::kEnded, process->task, how_it_ended(status)};
    running_.erase(process);
    return true;
  }
  return false;
}

bool Processes::take_stops() {
  const timespec at_once = {};
  bool any = false;
  while (::sigtimedwait(&stops_, nullptr, &at_once) > 0) any = true;
  return any;
}

Processes::LocalEvent Processes::wait(std::chrono::milliseconds at_most) {
  if (take_stops()) return {LocalEvent::Kind::kStopped, 0, ""};
  LocalEvent event;
  if (take_ended(event)) return event;
  timespec time = {};
  time.tv_sec = static_cast<time_t>(at_most.count() / 1000);
  time.tv_nsec = static_cast<long>(at_most.count() % 1000) * 1'000'000;
  const int number = ::sigtimedwait(&waited_for_, nullptr, &time);
  if (number > 0 && ::sigismember(&stops_, number) == 1) return {LocalEvent::Kind::kStopped, 0, ""};
  take_ended(event);
  return event;
}

}  // namespace paceline::sweep
