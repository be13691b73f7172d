// What every program of ours does first, before it has threads: what the system would otherwise end it for
// becomes an error that it can say, and it may open as many files as it is allowed to.
#pragma once

namespace paceline {

// First thing in main():
//   - a write that nobody can read any more fails (SIGPIPE is ignored), and so does one beyond the limit on
//     the size of files (SIGXFSZ, common/files/atomic_file.h)
//   - a standard stream that is closed is opened on nothing: else the next file or socket would get its
//     number, and with it what is meant for a terminal
//   - as many files may be open as the system allows this process (descriptors.h)
// In the programs that it starts, too, but for the last.
void begin_program();

}  // namespace paceline
