// What explain_waits.h found, as text for a terminal and as JSON.
#pragma once

#include <string>
#include <vector>

#include "common/trace/trace.h"
#include "tools/explain_waits.h"

namespace paceline {

// Of a whole run: what each cause cost, and the costliest waits.
struct Explained {
  std::string run;
  std::vector<Wait> costliest;
  std::vector<CauseCost> causes;
  std::size_t waits = 0;
  std::chrono::nanoseconds waited{0};
  std::chrono::nanoseconds worker_time{0};
};

std::string explained_text(const Explained& explained, const trace::Trace& trace);
std::string explained_json(const Explained& explained, const trace::Trace& trace);

// Of one iteration.
std::string wait_text(const Wait& wait, const trace::Trace& trace);
std::string wait_json(const Wait& wait, const trace::Trace& trace);

}  // namespace paceline
