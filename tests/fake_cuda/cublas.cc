// cuBLAS' calls: the handle, one product, and many at a time.
#include <cublas_v2.h>

#include <string>

#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/numbers.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace paceline::fake_cuda {
namespace {

struct Matrix {  // stored by columns
  Type type;
  const void* data;
  int stored_rows;
  bool transposed;
  std::int64_t stride = 0;  // to the next product's
  double at(std::int64_t product, std::int64_t row, std::int64_t column) const {
    const std::int64_t begin = product * stride;
    return transposed ? load(type, data, begin + row * stored_rows + column)
                      : load(type, data, begin + column * stored_rows + row);
  }
};

struct Sizes {
  int rows;
  int columns;
  int inner;
  int products = 1;
};

struct Factors {  // of the result and of what was there
  float alpha;
  float beta;
};

Type type_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? Type::kFloat : type == CUDA_R_16F ? Type::kHalf : Type::kBfloat16;
}

// Products of 16-bit numbers may be wanted as float32.
bool types_fit(cudaDataType_t left, cudaDataType_t right, cudaDataType_t result,
               cublasComputeType_t compute) {
  if (left != right) return false;
  if (left == CUDA_R_32F) return result == CUDA_R_32F;
  return (left == CUDA_R_16BF || left == CUDA_R_16F) && compute == CUBLAS_COMPUTE_32F &&
         (result == left || result == CUDA_R_32F);
}

// `rows` x `columns`: as the operation makes it. Whether all of it lies inside one allocation.
bool is_there(const Device& device, const Matrix& m, int rows, int columns, int products) {
  const int stored_rows = m.transposed ? columns : rows;
  const int stored_columns = m.transposed ? rows : columns;
  if (m.stored_rows < stored_rows) return false;
  const std::int64_t elements =
      (products - 1) * m.stride + std::int64_t{stored_columns - 1} * m.stored_rows + stored_rows;
  const std::size_t size = m.type == Type::kFloat ? 4 : 2;
  return device.is_inside(m.data, static_cast<std::size_t>(elements) * size, Kind::kDevice);
}

// result = alpha * left * right + beta * result, as often as there are products.
cublasStatus_t multiply(Device& device, const char* call, cublasHandle_t handle, const Sizes& sizes,
                        const Factors& by, const Matrix& left, const Matrix& right, const Matrix& result) {
  const bool fit = sizes.rows > 0 && sizes.columns > 0 && sizes.inner > 0 && sizes.products > 0 &&
                   is_there(device, left, sizes.rows, sizes.inner, sizes.products) &&
                   is_there(device, right, sizes.inner, sizes.columns, sizes.products) &&
                   is_there(device, result, sizes.rows, sizes.columns, sizes.products);
  if (!fit) {
    return device.mistake(std::string(call) + ": leading dimensions or memory that do not fit",
                          CUBLAS_STATUS_INVALID_VALUE);
  }
  const cudaError_t queued = device.enqueue(call, handle->stream, [=] {
    for (std::int64_t product = 0; product < sizes.products; ++product) {
      for (std::int64_t column = 0; column < sizes.columns; ++column) {
        for (std::int64_t row = 0; row < sizes.rows; ++row) {
          double sum = 0.0;
          for (std::int64_t k = 0; k < sizes.inner; ++k)
            sum += left.at(product, row, k) * right.at(product, k, column);
          store(result.type, const_cast<void*>(result.data),
                product * result.stride + column * result.stored_rows + row, sum, by.alpha, by.beta);
        }
      }
    }
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

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
  device.go_alone(__func__);
  *handle = device.make<cublasContext>();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  FAKE_CUDA_RELEASE();
  device.go_alone(__func__);
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

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (!device.is_alive(handle) || !device.is_inside(workspace, bytes, Kind::kDevice)) {
    return device.mistake("cublasSetWorkspace: memory that is not the GPU's", CUBLAS_STATUS_INVALID_VALUE);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_INVALID_VALUE);
  if (device.is_alive(handle) && mode == CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) {
    return CUBLAS_STATUS_SUCCESS;
  }
  return device.mistake("cublasSetMathMode: sums in less than float32", CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t left_operation,
                            cublasOperation_t right_operation, int rows, int columns, int inner,
                            const void* alpha, const void* left, cudaDataType left_type, int left_rows,
                            const void* right, cudaDataType right_type, int right_rows, const void* beta,
                            void* result, cudaDataType result_type, int result_rows,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
  if (!device.is_alive(handle) || !types_fit(left_type, right_type, result_type, compute)) {
    return device.mistake("cublasGemmEx: a handle that is not there, or types that do not fit",
                          CUBLAS_STATUS_NOT_INITIALIZED);
  }
  device.note_product("gemm compute " + std::to_string(compute) + " type " + std::to_string(left_type));
  return multiply(device, __func__, handle, {rows, columns, inner},
                  {*static_cast<const float*>(alpha), *static_cast<const float*>(beta)},
                  {type_of(left_type), left, left_rows, left_operation != CUBLAS_OP_N},
                  {type_of(right_type), right, right_rows, right_operation != CUBLAS_OP_N},
                  {type_of(result_type), result, result_rows, false});
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t left_operation,
                                          cublasOperation_t right_operation, int rows, int columns, int inner,
                                          const void* alpha, const void* left, cudaDataType left_type,
                                          int left_rows, long long left_stride, const void* right,
                                          cudaDataType right_type, int right_rows, long long right_stride,
                                          const void* beta, void* result, cudaDataType result_type,
                                          int result_rows, long long result_stride, int products,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  FAKE_CUDA_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
  if (!device.is_alive(handle) || !types_fit(left_type, right_type, result_type, compute)) {
    return device.mistake("cublasGemmStridedBatchedEx: a handle that is not there, or types that do not fit",
                          CUBLAS_STATUS_NOT_INITIALIZED);
  }
  device.note_product("gemms compute " + std::to_string(compute) + " type " + std::to_string(left_type));
  return multiply(device, __func__, handle, {rows, columns, inner, products},
                  {*static_cast<const float*>(alpha), *static_cast<const float*>(beta)},
                  {type_of(left_type), left, left_rows, left_operation != CUBLAS_OP_N, left_stride},
                  {type_of(right_type), right, right_rows, right_operation != CUBLAS_OP_N, right_stride},
                  {type_of(result_type), result, result_rows, false, result_stride});
}

}  // extern "C"
