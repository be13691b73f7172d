// A RunStatus for people: the line that a server prints while its run goes, on a terminal with one for each
// node below it, and the table of `paceline top`. What comes from elsewhere is printed without control
// characters: it can move no cursor.
//
// Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "common/live/run_status.h"
#include "common/text/printable.h"

namespace paceline {

// version 118  clock 117..120  gap 3/3  LPR 1.2 %  loss 0.8123  train accuracy 71.2 %  test accuracy 70.1 %
//   5210 samples/s  34 % done  1:12 left  slow: 3.0 (0.36)  15 wait for 3.0
// in one line; what is not known yet is left out. "gap 3/3": the difference of clocks, and the threshold.
std::string status_line(const RunStatus& status);

// The same as two rows of at most `columns` characters each, for a terminal on which they are rewritten. The
// first row has the numbers, each equally wide while it has its usual size. They stand in full words where
// these fit, else in few words, and then the less important ones are left out as far as needed. The second
// row says who waits for whom and who is slow; it may be empty.
//   117..120 gap  3/3 LPR   1.2 loss  0.81 test  70.1 %  5210/s  34 %    1:12 left
//   15 wait for 3.0  slow: 3.0 (0.36)
std::array<std::string, 2> status_rows(const RunStatus& status, std::size_t columns);

// A line for each node, at most `rows` and each of at most `columns` characters: clocks, where the time of
// its workers has gone, who of them is slow and for whom they wait; or why it is not here.
//   node 0  clock 118..120  COMPUTE_GRADS 60 %  BARRIER 10 %  1 waits for 1.0
// Of more nodes the slowest, in order, and how many more there are. No line where there is one node alone,
// of which the status of the whole says all.
std::vector<std::string> node_lines(const RunStatus& status, std::size_t columns, std::size_t rows);

// Several lines, the status of the whole and one row for each worker; no line wider than `columns`, at most
// `rows` lines. Of rows that are wider scores and times are left out first, for whom a worker waits never; of
// more workers the slowest are shown, of more waits the first, and how many are not.
std::string status_table(const RunStatus& status, std::size_t columns, std::size_t rows);

}  // namespace paceline
