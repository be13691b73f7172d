#include "common/process/begin.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "common/files/atomic_file.h"
#include "common/process/descriptors.h"

namespace paceline {

void begin_program() {
  std::signal(SIGPIPE, SIG_IGN);
  file_size_limit_is_an_error();
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    (void)!open("/dev/null", O_RDWR);  // gets the lowest number that is free: this one
  }
  raise_descriptor_limit();
}

}  // namespace paceline
