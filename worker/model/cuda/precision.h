// What `train.precision` means to the libraries. Parameters and gradients are float32 throughout.
//
//   fp32   activations float32, products in float32           cuDNN's FMA math, cuBLAS' 32F
//   tf32   activations float32, products of 10-bit mantissas  cuDNN's default math, cuBLAS' 32F_FAST_TF32
//   bf16   activations and weights bfloat16, sums in float32  cuDNN's tensor op math, cuBLAS' 32F
//   fp16   the same in float16, differences scaled (worker/model/loss_scaler.h)
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include "common/config/run_config.h"
#include "worker/model/cuda/narrow.h"

namespace paceline::cuda {

inline cudnnMathType_t cudnn_math(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return CUDNN_FMA_MATH;
    case Precision::kTf32:
      return CUDNN_DEFAULT_MATH;
    case Precision::kBf16:
    case Precision::kFp16:
      break;
  }
  return CUDNN_TENSOR_OP_MATH;
}

inline cublasComputeType_t cublas_compute(Precision precision) {
  return precision == Precision::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// The libraries' names of an activation's type.
template <typename T>
struct TypeNames;
template <>
struct TypeNames<float> {
  static constexpr cudnnDataType_t kCudnn = CUDNN_DATA_FLOAT;
  static constexpr cudaDataType_t kCublas = CUDA_R_32F;
};
template <>
struct TypeNames<Bfloat16> {
  static constexpr cudnnDataType_t kCudnn = CUDNN_DATA_BFLOAT16;
  static constexpr cudaDataType_t kCublas = CUDA_R_16BF;
};
template <>
struct TypeNames<Float16> {
  static constexpr cudnnDataType_t kCudnn = CUDNN_DATA_HALF;
  static constexpr cudaDataType_t kCublas = CUDA_R_16F;
};

}  // namespace paceline::cuda
