// cuDNN and cuBLAS as values that give back what they took, and what they answer as a Status: what
// common/cuda/resources.h and status.h are for CUDA's run time. A server, which computes no network, has no
// use for either.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <span>

#include "common/cuda/resources.h"
#include "common/status.h"

namespace paceline::cuda {

// As status_of() of common/cuda/status.h.
Status status_of(cudnnStatus_t status, const char* call);
Status status_of(cublasStatus_t status, const char* call);

using CudnnHandle = std::unique_ptr<cudnnContext, Destroyer<&cudnnDestroy>>;
using CublasHandle = std::unique_ptr<cublasContext, Destroyer<&cublasDestroy_v2>>;
using TensorDescriptor = std::unique_ptr<cudnnTensorStruct, Destroyer<&cudnnDestroyTensorDescriptor>>;
using FilterDescriptor = std::unique_ptr<cudnnFilterStruct, Destroyer<&cudnnDestroyFilterDescriptor>>;
using ConvolutionDescriptor =
    std::unique_ptr<cudnnConvolutionStruct, Destroyer<&cudnnDestroyConvolutionDescriptor>>;

// Both work in `stream`. cuBLAS has its scratch memory from outside, which outlives the handle: asked for by
// itself, it would be asked for in the middle of a step.
Result<CudnnHandle> make_cudnn(cudaStream_t stream);
Result<CublasHandle> make_cublas(cudaStream_t stream, std::span<std::byte> workspace);
Result<TensorDescriptor> make_tensor_descriptor();
Result<FilterDescriptor> make_filter_descriptor();
Result<ConvolutionDescriptor> make_convolution_descriptor();

}  // namespace paceline::cuda
