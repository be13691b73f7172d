// cuBLAS' calls: the handle and one product.
#include <cublas_v2.h>

#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/numbers.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace paceline::fake_cuda {
namespace {

struct Matrix {  // stored by columns
  const void* data;
  int stored_rows;
  bool transposed;
  double at(Type type, std::int64_t row, std::int64_t column) const {
    return transposed ? load(type, data, row * stored_rows + column)
                      : load(type, data, column * stored_rows + row);
  }
};

}  // namespace
}  // namespace paceline::fake_cuda

using namespace paceline::fake_cuda;

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed"
         : status == CUBLAS_STATUS_EXECUTION_FAILED
             ? "the function failed to launch on the GPU"
             : "an unsupported value or parameter was passed to the function";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_ALLOC_FAILED);
  *handle = device.make<cublasContext>();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  FAKE_CUDA_RELEASE();
  if (device.destroy(handle)) return CUBLAS_STATUS_SUCCESS;
  return device.mistake("cublasDestroy: a handle that is not there", CUBLAS_STATUS_NOT_INITIALIZED);
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (!device.is_alive(handle) || !device.is_alive(stream)) {
    return device.mistake("cublasSetStream: a handle or stream that is not there",
                          CUBLAS_STATUS_NOT_INITIALIZED);
  }
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t left_operation,
                            cublasOperation_t right_operation, int rows, int columns, int inner,
                            const void* alpha, const void* left, cudaDataType left_type, int left_rows,
                            const void* right, cudaDataType right_type, int right_rows, const void* beta,
                            void* result, cudaDataType result_type, int result_rows,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
  if (!device.is_alive(handle)) {
    return device.mistake("cublasGemmEx: a handle that is not there", CUBLAS_STATUS_NOT_INITIALIZED);
  }
  const bool types = left_type == right_type && right_type == result_type &&
                     (left_type == CUDA_R_32F || (left_type == CUDA_R_16BF && compute == CUBLAS_COMPUTE_32F));
  const int left_needed = left_operation == CUBLAS_OP_N ? rows : inner;
  const int right_needed = right_operation == CUBLAS_OP_N ? inner : columns;
  if (!types || left_rows < left_needed || right_rows < right_needed || result_rows < rows) {
    return device.mistake("cublasGemmEx: types or leading dimensions that do not fit",
                          CUBLAS_STATUS_INVALID_VALUE);
  }
  device.note_product("gemm compute " + std::to_string(compute) + " type " + std::to_string(left_type));
  const Type type = left_type == CUDA_R_32F ? Type::kFloat : Type::kBfloat16;
  const Matrix a{left, left_rows, left_operation != CUBLAS_OP_N};
  const Matrix b{right, right_rows, right_operation != CUBLAS_OP_N};
  const float times = *static_cast<const float*>(alpha);
  const float kept = *static_cast<const float*>(beta);
  const cudaError_t queued = device.enqueue(__func__, handle->stream, [=] {
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < inner; ++k) sum += a.at(type, row, k) * b.at(type, k, column);
        store(type, result, column * result_rows + row, sum, times, kept);
      }
    }
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
