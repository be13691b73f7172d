// A dense layer, whose three products cuBLAS computes. cuBLAS counts in columns: our row-major samples x
// units is its units x samples.
//
//   samples x units here      cuBLAS' matrices
//   out = in * weight^T       out (o x n) = weight^T (o x i) * in (i x n)
//   d in = d out * weight     d in (i x n) = weight (i x o) * d out (o x n)
//   d weight = d out^T * in   d weight (i x o) = in (i x n) * d out^T (n x o)
#pragma once

#include <utility>

#include "common/config/run_config.h"
#include "worker/model/cuda/precision.h"
#include "worker/model/cuda/trained_layer.h"

namespace paceline::cuda {

template <typename T>
class Dense final : public TrainedLayer<T> {
 public:
  // `gpu` outlives the layer.
  Dense(const GpuThread& gpu, const Layer& layer, int samples, Precision precision, Behind<T> behind)
      : TrainedLayer<T>(gpu, layer, samples, std::move(behind)),
        inputs_(static_cast<int>(layer.in.size())),
        outputs_(static_cast<int>(layer.out.size())),
        compute_(cublas_compute(precision)) {}

 protected:
  Status multiply(const Pass<T>& pass, const T* in, T* out) override {
    return product({CUBLAS_OP_T, this->weight(pass), inputs_}, {CUBLAS_OP_N, in, inputs_}, inputs_,
                   Product<T>{out, outputs_, this->samples_});
  }
  Status multiply_for_weight(const Pass<T>&, const T* in, const T* out_difference, float* into) override {
    return product({CUBLAS_OP_N, in, inputs_}, {CUBLAS_OP_T, out_difference, outputs_}, this->samples_,
                   Product<float>{into, inputs_, outputs_});
  }
  Status multiply_for_input(const Pass<T>& pass, const T* out_difference, T* in_difference) override {
    return product({CUBLAS_OP_N, this->weight(pass), inputs_}, {CUBLAS_OP_N, out_difference, outputs_},
                   outputs_, Product<T>{in_difference, inputs_, this->samples_});
  }

 private:
  struct Factor {
    cublasOperation_t operation;
    const T* data;
    int stored_rows;
  };
  template <typename To>
  struct Product {
    To* data;
    int rows;
    int columns;
  };

  // left (rows x inner) * right (inner x columns), as their operations make them of what is stored.
  template <typename To>
  Status product(const Factor& left, const Factor& right, int inner, const Product<To>& result) {
    const float one = 1.0F;
    const float zero = 0.0F;  // what was there is not read
    constexpr cudaDataType_t kType = TypeNames<T>::kCublas;
    PACELINE_CUDA(cublasGemmEx(this->gpu_.cublas(), left.operation, right.operation, result.rows,
                               result.columns, inner, &one, left.data, kType, left.stored_rows, right.data,
                               kType, right.stored_rows, &zero, result.data, TypeNames<To>::kCublas,
                               result.rows, compute_, CUBLAS_GEMM_DEFAULT));
    return Status::ok();
  }

  const int inputs_;
  const int outputs_;
  const cublasComputeType_t compute_;
};

}  // namespace paceline::cuda
