// What a back end calls final at each point of its backward pass, held against what it is in the end.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/unit/model_fixture.h"

namespace paceline {

// Each layer is final once, the last first, and nothing touches it afterwards.
inline void check_finals(NetworkBackend& backend, const NetworkSpec& network,
                         const std::vector<float>& parameters, const Batch& batch) {
  std::vector<std::int64_t> begins;
  for (const Layer& layer : network.layers) {
    if (layer.tensors().size > 0) begins.insert(begins.begin(), layer.tensors().offset);
  }
  std::vector<float> whole(parameters.size());
  REQUIRE(backend.gradient(parameters, batch, whole, whole_at_the_end).is_ok());
  std::vector<float> gradient(parameters.size(), std::nanf(""));
  std::vector<std::int64_t> finals;
  bool was_final = true;
  const auto final_from = [&](std::int64_t begin) {
    finals.push_back(begin);
    was_final =
        was_final && std::memcmp(gradient.data() + begin, whole.data() + begin,
                                 (whole.size() - static_cast<std::size_t>(begin)) * sizeof(float)) == 0;
  };
  REQUIRE(backend.gradient(parameters, batch, gradient, final_from).is_ok());
  CHECK(finals == begins);
  CHECK(finals.back() == 0);
  CHECK(was_final);
  CHECK(std::memcmp(gradient.data(), whole.data(), whole.size() * sizeof(float)) == 0);
}

}  // namespace paceline
