// What explain_waits.h found, as text for a terminal and as JSON.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/trace/trace.h"
#include "tools/explain_waits.h"

namespace paceline {

inline constexpr std::size_t kCostliest = 10;  // are listed of each cause

// Of a whole run: its waits, and what each cause cost.
struct Explained {
  std::string run;
  std::optional<WaitCause> cause;  // that alone is told
  std::vector<Wait> waits;
  std::vector<CauseCost> causes;
  std::chrono::nanoseconds waited{0};
  std::chrono::nanoseconds worker_time{0};
};

// Seconds are counted from the first grant, as in curve.csv, or from the trace's begin where it is not there.
std::chrono::nanoseconds since_start(const trace::Trace& trace, Ticks at);

// As text, a cause that cost less than a hundredth of all waiting has no list of its costliest waits.
std::string explained_text(const Explained& explained, const trace::Trace& trace);
std::string explained_json(const Explained& explained, const trace::Trace& trace);

// Of one iteration.
std::string wait_text(const Wait& wait, const trace::Trace& trace);
std::string wait_json(const Wait& wait, const trace::Trace& trace);

}  // namespace paceline
