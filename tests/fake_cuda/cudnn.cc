// cuDNN's calls: the handle, descriptors, and a convolution's three passes with their searches.
//
// A search offers, the fastest first: one that needs more memory than anybody should give, one that fails,
// one that is not deterministic, and two that are; each says the math of the descriptor that it was asked
// with.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/numbers.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int n = 0, c = 0, h = 0, w = 0;
};
struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int k = 0, c = 0, h = 0, w = 0;
};
struct cudnnConvolutionStruct {
  int pad_h = 0, pad_w = 0, stride_h = 0, stride_w = 0;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace paceline::fake_cuda {
namespace {

// A convolution as all three passes see it, copied when it is asked for: cuDNN reads descriptors then.
struct Convolution {
  cudnnTensorStruct x;
  cudnnFilterStruct w;
  cudnnTensorStruct y;
  cudnnConvolutionStruct conv;

  Type type() const {
    return x.type == CUDNN_DATA_FLOAT  ? Type::kFloat
           : x.type == CUDNN_DATA_HALF ? Type::kHalf
                                       : Type::kBfloat16;
  }

  // Calls tap(index of x, of w, of y) for each product that the convolution sums.
  template <typename Tap>
  void for_each_tap(const Tap& tap) const {
    for (std::int64_t n = 0; n < x.n; ++n) {
      for (std::int64_t k = 0; k < w.k; ++k) {
        for (std::int64_t c = 0; c < w.c; ++c) {
          for (std::int64_t v = 0; v < w.h; ++v) {
            for (std::int64_t u = 0; u < w.w; ++u) {
              const std::int64_t wi = ((k * w.c + c) * w.h + v) * w.w + u;
              for (std::int64_t row = 0; row < y.h; ++row) {
                const std::int64_t in_row = row * conv.stride_h + v - conv.pad_h;
                if (in_row < 0 || in_row >= x.h) continue;
                for (std::int64_t column = 0; column < y.w; ++column) {
                  const std::int64_t in_column = column * conv.stride_w + u - conv.pad_w;
                  if (in_column < 0 || in_column >= x.w) continue;
                  tap(((n * x.c + c) * x.h + in_row) * x.w + in_column, wi,
                      ((n * y.c + k) * y.h + row) * y.w + column);
                }
              }
            }
          }
        }
      }
    }
  }
};

std::int64_t size_of(const cudnnTensorStruct& t) { return std::int64_t{t.n} * t.c * t.h * t.w; }
std::int64_t size_of(const cudnnFilterStruct& f) { return std::int64_t{f.k} * f.c * f.h * f.w; }

std::vector<double> read(Type type, const void* tensor, std::int64_t size) {
  std::vector<double> values(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) values[i] = load(type, tensor, i);
  return values;
}

void write(Type type, void* tensor, const std::vector<double>& values, float alpha, float beta) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(type, tensor, static_cast<std::int64_t>(i), values[i], alpha, beta);
  }
}

// Whether the descriptors are there and fit; then `convolution` is what they say.
bool fits(const Device& device, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
          cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, Convolution& convolution) {
  if (!device.is_alive(x) || !device.is_alive(w) || !device.is_alive(conv) || !device.is_alive(y))
    return false;
  convolution = {*x, *w, *y, *conv};
  const bool types = x->type == w->type && w->type == y->type;
  const bool numbers = x->n > 0 && x->n == y->n && x->c == w->c && y->c == w->k && conv->stride_h > 0;
  return types && numbers && y->h == (x->h + 2 * conv->pad_h - w->h) / conv->stride_h + 1 &&
         y->w == (x->w + 2 * conv->pad_w - w->w) / conv->stride_w + 1;
}

enum class Pass { kForward, kData, kFilter };

const char* name_of(Pass pass) {
  return pass == Pass::kForward ? "forward" : pass == Pass::kData ? "data" : "filter";
}

// Something that depends on everything that it really depends on.
std::size_t workspace_of(Pass pass, const Convolution& c, int algorithm) {
  return static_cast<std::size_t>(1024 * static_cast<int>(pass) + 256 * (algorithm + 1) + 64 * c.conv.math +
                                  c.x.n);
}

cudnnStatus_t fit_or_mistake(Device& device, const char* call, bool good) {
  if (good) return CUDNN_STATUS_SUCCESS;
  return device.mistake(std::string(call) + ": descriptors that are not there or do not fit",
                        CUDNN_STATUS_BAD_PARAM);
}

template <typename Perf>
cudnnStatus_t search(const Machine& machine, Pass pass, const Convolution& c, int most, int* found,
                     Perf* perf) {
  using Algorithm = decltype(Perf::algo);
  struct Offer {
    int algorithm;
    cudnnStatus_t status;
    cudnnDeterminism_t determinism;
    std::size_t memory;
  };
  const std::array<Offer, 5> offers{{
      {5, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, std::size_t{64} << 30},
      {4, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC, 0},
      {0, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC, workspace_of(pass, c, 0)},
      {1, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, workspace_of(pass, c, 1)},
      {2, CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC, workspace_of(pass, c, 2)},
  }};
  *found = std::min<int>(most, offers.size());
  for (int i = 0; i < *found; ++i) {
    perf[i] = {};
    perf[i].algo = static_cast<Algorithm>(offers[i].algorithm);
    perf[i].status = offers[i].status;
    perf[i].time = static_cast<float>(i);
    perf[i].memory = offers[i].memory;
    perf[i].determinism = offers[i].determinism;
    perf[i].mathType = c.conv.math;
    if (pass != Pass::kFilter) continue;
    if (machine.filters == Filters::kVary) perf[i].determinism = CUDNN_NON_DETERMINISTIC;
    if (machine.filters == Filters::kFail) perf[i].status = CUDNN_STATUS_NOT_SUPPORTED;
  }
  return CUDNN_STATUS_SUCCESS;
}

struct Scratch {
  void* memory;
  std::size_t bytes;
};

// Checks and begins one pass: `compute` is done in the handle's stream.
template <typename Compute>
cudnnStatus_t run(Device& device, Pass pass, cudnnHandle_t handle, const Convolution& c, int algorithm,
                  const Scratch& scratch, std::initializer_list<const void*> tensors, Compute compute) {
  // A search measures on memory of its own, which is aligned.
  for (const void* tensor : tensors) {
    if (reinterpret_cast<std::uintptr_t>(tensor) % 16 == 0) continue;
    return device.mistake(std::string(name_of(pass)) + ": a tensor that is not aligned",
                          CUDNN_STATUS_BAD_PARAM);
  }
  if (!device.is_alive(handle)) {
    return device.mistake(std::string(name_of(pass)) + ": a handle that is not there",
                          CUDNN_STATUS_BAD_PARAM);
  }
  const std::size_t needed = workspace_of(pass, c, algorithm);
  if (scratch.bytes < needed || !device.is_inside(scratch.memory, needed, Kind::kDevice)) {
    return device.mistake(std::string(name_of(pass)) + ": a workspace that is too small",
                          CUDNN_STATUS_BAD_PARAM);
  }
  device.note_product(std::string(name_of(pass)) + " algo " + std::to_string(algorithm) + " math " +
                      std::to_string(c.conv.math) + " type " + std::to_string(c.x.type));
  const cudaError_t queued = device.enqueue(name_of(pass), handle->stream, [=] {
    std::memset(scratch.memory, 0xAB, needed);
    compute();
  });
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

float scalar(const void* value) { return *static_cast<const float*>(value); }

}  // namespace
}  // namespace paceline::fake_cuda

using namespace paceline::fake_cuda;

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_ALLOC_FAILED:
      return "CUDNN_STATUS_ALLOC_FAILED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "another status";
  }
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (max_size > 0) message[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  device.go_alone(__func__);
  *handle = device.make<cudnnContext>();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  FAKE_CUDA_RELEASE();
  device.go_alone(__func__);
  return fit_or_mistake(device, __func__, device.destroy(handle));
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  if (!device.is_alive(handle) || !device.is_alive(stream)) return fit_or_mistake(device, __func__, false);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  *tensor = device.make<cudnnTensorStruct>();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  FAKE_CUDA_RELEASE();
  return fit_or_mistake(device, __func__, device.destroy(tensor));
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  if (!device.is_alive(tensor) || format != CUDNN_TENSOR_NCHW) return fit_or_mistake(device, __func__, false);
  *tensor = {type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  *filter = device.make<cudnnFilterStruct>();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  FAKE_CUDA_RELEASE();
  return fit_or_mistake(device, __func__, device.destroy(filter));
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  if (!device.is_alive(filter) || format != CUDNN_TENSOR_NCHW) return fit_or_mistake(device, __func__, false);
  *filter = {type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  *convolution = device.make<cudnnConvolutionStruct>();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  FAKE_CUDA_RELEASE();
  return fit_or_mistake(device, __func__, device.destroy(convolution));
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                              int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  if (!device.is_alive(convolution) || dilation_h != 1 || dilation_w != 1 ||
      mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) {
    return fit_or_mistake(device, __func__, false);
  }
  *convolution = {pad_h, pad_w, u, v, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  if (!device.is_alive(convolution)) return fit_or_mistake(device, __func__, false);
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                   const cudnnFilterDescriptor_t w,
                                                   const cudnnConvolutionDescriptor_t conv,
                                                   const cudnnTensorDescriptor_t y, const int most,
                                                   int* found, cudnnConvolutionFwdAlgoPerf_t* perf) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  device.go_alone(__func__);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, x, w, conv, y, c))
    return fit_or_mistake(device, __func__, false);
  return search(device.machine, Pass::kForward, c, most, found, perf);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                        const cudnnTensorDescriptor_t dy,
                                                        const cudnnConvolutionDescriptor_t conv,
                                                        const cudnnTensorDescriptor_t dx, const int most,
                                                        int* found, cudnnConvolutionBwdDataAlgoPerf_t* perf) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  device.go_alone(__func__);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, dx, w, conv, dy, c))
    return fit_or_mistake(device, __func__, false);
  return search(device.machine, Pass::kData, c, most, found, perf);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw, const int most, int* found,
    cudnnConvolutionBwdFilterAlgoPerf_t* perf) {
  FAKE_CUDA_CALL(CUDNN_STATUS_ALLOC_FAILED);
  device.go_alone(__func__);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, x, dw, conv, dy, c))
    return fit_or_mistake(device, __func__, false);
  return search(device.machine, Pass::kFilter, c, most, found, perf);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w,
                                                      const cudnnConvolutionDescriptor_t conv,
                                                      const cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, x, w, conv, y, c))
    return fit_or_mistake(device, __func__, false);
  *bytes = workspace_of(Pass::kForward, c, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, dx, w, conv, dy, c))
    return fit_or_mistake(device, __func__, false);
  *bytes = workspace_of(Pass::kData, c, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  FAKE_CUDA_CALL(CUDNN_STATUS_BAD_PARAM);
  Convolution c;
  if (!device.is_alive(handle) || !fits(device, x, dw, conv, dy, c))
    return fit_or_mistake(device, __func__, false);
  *bytes = workspace_of(Pass::kFilter, c, algorithm);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      const cudnnTensorDescriptor_t x_is, const void* x,
                                      const cudnnFilterDescriptor_t w_is, const void* w,
                                      const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes,
                                      const void* beta, const cudnnTensorDescriptor_t y_is, void* y) {
  FAKE_CUDA_CALL(CUDNN_STATUS_EXECUTION_FAILED);
  Convolution c;
  if (!fits(device, x_is, w_is, conv, y_is, c)) return fit_or_mistake(device, __func__, false);
  return run(device, Pass::kForward, handle, c, algorithm, {workspace, bytes}, {x, w, y},
             [=, times = scalar(alpha), kept = scalar(beta)] {
               const auto xs = read(c.type(), x, size_of(c.x));
               const auto ws = read(c.type(), w, size_of(c.w));
               std::vector<double> ys(static_cast<std::size_t>(size_of(c.y)));
               c.for_each_tap([&](auto xi, auto wi, auto yi) { ys[yi] += xs[xi] * ws[wi]; });
               write(c.type(), y, ys, times, kept);
             });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_is, const void* w,
                                           const cudnnTensorDescriptor_t dy_is, const void* dy,
                                           const cudnnConvolutionDescriptor_t conv,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t dx_is, void* dx) {
  FAKE_CUDA_CALL(CUDNN_STATUS_EXECUTION_FAILED);
  Convolution c;
  if (!fits(device, dx_is, w_is, conv, dy_is, c)) return fit_or_mistake(device, __func__, false);
  return run(device, Pass::kData, handle, c, algorithm, {workspace, bytes}, {w, dy, dx},
             [=, times = scalar(alpha), kept = scalar(beta)] {
               const auto ws = read(c.type(), w, size_of(c.w));
               const auto dys = read(c.type(), dy, size_of(c.y));
               std::vector<double> dxs(static_cast<std::size_t>(size_of(c.x)));
               c.for_each_tap([&](auto xi, auto wi, auto yi) { dxs[xi] += dys[yi] * ws[wi]; });
               write(c.type(), dx, dxs, times, kept);
             });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_is, const void* x,
                                             const cudnnTensorDescriptor_t dy_is, const void* dy,
                                             const cudnnConvolutionDescriptor_t conv,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             size_t bytes, const void* beta,
                                             const cudnnFilterDescriptor_t dw_is, void* dw) {
  FAKE_CUDA_CALL(CUDNN_STATUS_EXECUTION_FAILED);
  Convolution c;
  if (!fits(device, x_is, dw_is, conv, dy_is, c)) return fit_or_mistake(device, __func__, false);
  return run(device, Pass::kFilter, handle, c, algorithm, {workspace, bytes}, {x, dy, dw},
             [=, times = scalar(alpha), kept = scalar(beta)] {
               const auto xs = read(c.type(), x, size_of(c.x));
               const auto dys = read(c.type(), dy, size_of(c.y));
               std::vector<double> dws(static_cast<std::size_t>(size_of(c.w)));
               c.for_each_tap([&](auto xi, auto wi, auto yi) { dws[wi] += xs[xi] * dys[yi]; });
               write(c.type(), dw, dws, times, kept);
             });
}

}  // extern "C"
