// A strict reader of Prometheus' text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats), and
// of what promtool checks beyond it: HELP and TYPE before a family's samples, each family in one piece, names
// that are allowed, no sample twice, counters that end in _total and are not negative, base units.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace paceline::testing {

struct PrometheusText {
  std::vector<std::string> faults;           // empty: it is as it must be
  std::map<std::string, std::string> types;  // by family
  std::map<std::string, double> samples;     // by name and labels, as they are written
};

PrometheusText read_prometheus(const std::string& text);

// Of two readings one after another: the counters that have fallen or gone.
std::vector<std::string> fallen_counters(const PrometheusText& before, const PrometheusText& after);

}  // namespace paceline::testing
