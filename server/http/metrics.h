// A RunStatus for Prometheus, in its text format 0.0.4: base units (seconds, bytes, ratios from 0 to 1),
// counters that end in _total and only grow, HELP and TYPE before the samples, one line a sample. What is not
// known yet is not there. docs/LIVE.md lists the names, docs/grafana-dashboard.json uses them.
//
// Thread: any.
#pragma once

#include <string>

#include "common/live/run_status.h"

namespace paceline::server {

// `age_seconds`: how long ago the status was made.
std::string metrics_text(const RunStatus& status, double age_seconds);

}  // namespace paceline::server
