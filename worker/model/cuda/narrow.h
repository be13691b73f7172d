// The types of 16 bits that activations may be stored as. CUDA converts both to float and back alone.
//
//   bfloat16   8 bits of mantissa, float's exponents
//   float16    11 bits, and nothing above 65,504: differences are scaled (worker/model/loss_scaler.h)
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace paceline::cuda {

using Bfloat16 = __nv_bfloat16;
using Float16 = __half;

// X(type) for each that activations are stored as.
#define PACELINE_CUDA_FOR_ACTIVATIONS(X) X(float) X(::paceline::cuda::Bfloat16) X(::paceline::cuda::Float16)

}  // namespace paceline::cuda
