// A convolution, computed by cuDNN, but for its filter's gradient where unfolded_filter.h is faster. The
// legacy calls are used: they are deprecated in cuDNN 9 in favour of the graph interface, whose C++ front end
// would be one more library, and they do all that these networks need.
#pragma once

#include <memory>

#include "common/config/run_config.h"
#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/trained_layer.h"

namespace paceline::cuda {

// `layer` of a network, for mini-batches of `samples`. Measures algorithms when `cache` does not know the
// shape. `gpu` outlives the layer. Errors: status_of()'s; kInternal when cuDNN has no algorithm for the
// layer.
template <typename T>
Result<std::unique_ptr<GpuLayer<T>>> make_convolution(const GpuThread& gpu, AlgorithmCache& cache,
                                                      const Layer& layer, int samples, Precision precision,
                                                      Behind<T> behind);

}  // namespace paceline::cuda
