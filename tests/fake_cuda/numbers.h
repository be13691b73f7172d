// Elements of a tensor, whatever type cuDNN or cuBLAS was told that they have.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace paceline::fake_cuda {

enum class Type { kFloat, kBfloat16, kHalf };

inline double load(Type type, const void* tensor, std::int64_t at) {
  if (type == Type::kFloat) return static_cast<const float*>(tensor)[at];
  if (type == Type::kHalf) return static_cast<float>(static_cast<const __half*>(tensor)[at]);
  return static_cast<float>(static_cast<const __nv_bfloat16*>(tensor)[at]);
}

// tensor[at] = alpha * value + beta * tensor[at], which is not read where beta is 0.
inline void store(Type type, void* tensor, std::int64_t at, double value, float alpha, float beta) {
  double sum = alpha * value;
  if (beta != 0.0F) sum += beta * load(type, tensor, at);
  if (type == Type::kFloat) {
    static_cast<float*>(tensor)[at] = static_cast<float>(sum);
  } else if (type == Type::kHalf) {
    static_cast<__half*>(tensor)[at] = __float2half(static_cast<float>(sum));
  } else {
    static_cast<__nv_bfloat16*>(tensor)[at] = __float2bfloat16(static_cast<float>(sum));
  }
}

}  // namespace paceline::fake_cuda
