// A sink of parameters that remembers what is copied in.
#pragma once

#include <vector>

#include "worker/cache/parameter_sink.h"

namespace paceline::testing {

struct CopyingSink : ParameterSink {
  std::vector<float> values;
  bool copy_in(ShardId, const cache::SliceStamp&, const SlicePiece& piece) override {
    values.insert(values.end(), piece.payload.floats().begin(), piece.payload.floats().end());
    return true;
  }
};

}  // namespace paceline::testing
