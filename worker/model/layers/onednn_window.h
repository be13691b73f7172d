// What layers with a window that slides over an image give oneDNN's descriptions.
#pragma once

#include "worker/model/onednn_program.h"

namespace paceline::onednn {

inline Dims strides_of(const Layer& layer) { return {layer.stride, layer.stride}; }
inline Dims kernel_of(const Layer& layer) { return {layer.kernel, layer.kernel}; }
inline Dims padding_of(const Layer& layer) { return {layer.padding, layer.padding}; }

}  // namespace paceline::onednn
