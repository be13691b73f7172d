// A sink of parameters that remembers what lands.
#pragma once

#include <vector>

#include "worker/cache/parameter_sink.h"

namespace paceline::testing {

struct Landed : ParameterSink {
  std::vector<float> values;
  bool land(ShardId, const cache::SliceStamp&, const SlicePiece& piece) override {
    values.insert(values.end(), piece.payload.floats().begin(), piece.payload.floats().end());
    return true;
  }
};

}  // namespace paceline::testing
