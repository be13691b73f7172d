// How long a plan (plan.h) takes, in virtual time: the rows that the executor (worker/mesh/) carries out, on links
// of virtual nodes. Nothing of an algorithm is known here but its table.
//
// Each rank has one link, which carries one transfer after another, in either direction at the same time, and one
// thread, which takes one transfer after another at either end. A transfer that two ranks agree on has arrived one
// latency after both links are through with it. A row is done for its sender once it has left, since the receiver's
// system takes it in; for its receiver once it has been taken, and added.
//
//   2 ranks, ring, 128 bytes; 64 bytes/s, 0.5 s of latency: each sends 64 bytes at 0 s, which are there at 1.5 s; what
//   is
//   sent back then is there at 3 s
//
// The terms are those of the cost model of Thakur, Rabenseifner and Gropp, 2005, section 3: alpha, beta, gamma.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/schedule/program.h"

namespace paceline::schedule {

struct Links {
  double latency = 0.0;  // s, one way
  // s, of each rank's link in each direction, or one for all; 0: without a limit.
  std::vector<double> per_byte = {0.0};
  double per_transfer = 0.0;  // s of a rank's thread, at either end
  double per_float = 0.0;     // s of it, to add one
};

// The programs of all ranks of a checked plan, in their order.
std::vector<Program> programs_of(const Plan& plan, Encoding encoding = Encoding::kFp32);

// That a rank sends to others.
std::int64_t bytes_sent(const Program& program);

// When each rank has done all of its rows, in seconds. `begins`: when each may begin; empty: 0.
std::vector<double> reduction_times(const std::vector<Program>& programs, const Links& links,
                                    std::span<const double> begins = {});

}  // namespace paceline::schedule
