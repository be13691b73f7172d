// A RunStatus for people: the one line that a server prints while its run goes, and the table of `paceline
// top`. What comes from elsewhere is printed without control characters: it can move no cursor.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>

#include "common/live/run_status.h"
#include "common/text/printable.h"

namespace paceline {

// version 118  clock 117..120  gap 3/3  LPR 1.2 %  loss 0.8123  train accuracy 71.2 %  test accuracy 70.1 %
//   5210 samples/s  34 % done  1:12 left  slow: 3.0 (0.36)  15 wait for 3.0
// in one line; what is not known yet is left out. "gap 3/3": the difference of clocks, and the threshold.
std::string status_line(const RunStatus& status);

// The same in at most `columns` characters: whole where that fits, else in few words, and of these the more
// important ones. The clocks, the time left and who is waited for are there as long as there is any room:
//   117..120 gap 3/3 loss 0.81 test 70.1 % 5210/s 34 % 1:12 left slow 3.0 (0.36) 15 wait for 3.0
std::string status_line(const RunStatus& status, std::size_t columns);

// Several lines, the status of the whole and one row for each worker; no line wider than `columns`, at most
// `rows` lines: of more workers the slowest are shown, of more waits the first, and how many are not.
std::string status_table(const RunStatus& status, std::size_t columns, std::size_t rows);

}  // namespace paceline
