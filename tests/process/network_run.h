// Whole runs of the built-in network, in one process, and how far two of them end apart.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/process/local_cluster.h"
#include "tests/unit/wrapped_tasks.h"

namespace paceline::testing {

inline ClusterRun run_network(const RunConfig& config, const Observe& observe = {}) {
  auto ended =
      run_cluster(config, [&](NodeId, const StopNode&) { return network_tasks(config); }, {}, observe);
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  return std::move(ended).value();
}

// The largest distance of two elements at one place. Of what is NaN there is none.
inline double apart(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::abs(double{a[i]} - double{b[i]});
    if (std::isnan(distance)) FAIL("element " << i << ": " << a[i] << " and " << b[i]);
    most = std::max(most, distance);
  }
  return most;
}

}  // namespace paceline::testing
