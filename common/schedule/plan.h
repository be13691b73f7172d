// Plan: who sends which floats to whom, in which order, so that every rank ends with the sum of all: an
// all-reduce as a table. A planner (planners.h) makes it from the number of ranks and floats alone, a checker
// (check.h) replays it on sets instead of floats, print.h writes it as text, and one small executor
// (worker/mesh/) carries out a rank's rows. None of them knows an algorithm's name for anything but words.
//
// Worked example, ring, 2 ranks, 32 floats. Each rank sends the half that the other one sums, and gets it back:
//
//   rank 0                             rank 1
//   0  send    16..32 to 1             0  add     16..32 from 0
//   1  add     0..16 from 1            1  send    0..16 to 0
//   2  send    0..16 to 1, after 1     2  receive 0..16 from 0, after 1
//   3  receive 16..32 from 1, after 0  3  send    16..32 to 0, after 0
//
// What a rank says to one peer leaves in the order of the table, and so does what it hears from one. Beyond
// that only `after` orders transfers: a rank sends, adds and receives at the same time where that allows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/params/partition.h"

namespace paceline::schedule {

enum class TransferKind {
  kSend,
  kReceive,  // in place of what is there
  kAdd,      // receive, and add to what is there
};

struct Transfer {
  TransferKind kind = TransferKind::kSend;
  std::uint32_t peer = 0;            // a rank
  Range range;                       // of the vector, never empty; the peer's row has the same
  std::vector<std::uint32_t> after;  // this rank's rows that have to be done before it begins, ascending
};

using Rows = std::vector<Transfer>;

struct Plan {
  std::string name;  // the algorithm's
  std::int64_t floats = 0;
  std::vector<Rows> ranks;
};

// Of the rows of one rank.
std::int64_t floats_sent(const Rows& rows);

// Rows without their `after`: fills it in. A row begins when all earlier rows of its rank are done that it
// conflicts with: what writes a float waits for what reads or writes it, what reads it for what writes it.
void order_conflicts(Rows& rows);

}  // namespace paceline::schedule
