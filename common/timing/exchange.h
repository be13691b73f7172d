// How the time that a training thread was blocked in one exchange with the servers is divided among four
// phases. The exchange is one round trip (push + clock up, grant + parameters down), so no switch on
// the thread itself can tell its parts apart; the grant brings the one thing the thread cannot know, how long
// the threshold held it.
//
// Of an exchange that blocked for T (docs/ARCHITECTURE.md), each taking from what the ones before left:
//   BARRIER         min(T, the time the authority held the grant for the threshold)
//   PS_PARAM        from the grant until the last parameter was installed, another thread's transfer included
//   STEP            building and parsing the clock report, on the training thread and on its I/O thread
//   PS_APPLY_GRADS  the rest: upload, queues, application
// The four add up to T exactly.
//
// Worked example: T = 100 ms, held 60, parameters 25 after the grant, report 1: BARRIER 60, PS_PARAM 25,
// STEP 1, PS_APPLY_GRADS 14.
#pragma once

#include <chrono>
#include <optional>

namespace paceline {

// What is known about the inside of an exchange.
struct ExchangeTimes {
  std::chrono::nanoseconds held{0};                    // Grant.held
  std::optional<std::chrono::nanoseconds> parameters;  // grant to last parameter; none when none were needed
  std::chrono::nanoseconds report{0};                  // building the report and parsing the grant
};

struct ExchangeSplit {
  std::chrono::nanoseconds barrier{0};
  std::chrono::nanoseconds ps_param{0};
  std::chrono::nanoseconds step{0};
  std::chrono::nanoseconds ps_apply_grads{0};
};

// `total`: how long the thread was blocked. Negative parts count as 0 (clocks of two machines are never
// compared, but `held` was measured on another one).
ExchangeSplit split_exchange(std::chrono::nanoseconds total, const ExchangeTimes& exchange);

}  // namespace paceline
