#include "worker/model/cuda/unfolded_filter.h"

#include <algorithm>

#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/precision.h"

namespace paceline::cuda {
namespace {

// Beyond that cuDNN has work for tensor cores without unfolding, and unfolding is what takes the time.
constexpr std::int64_t kInputsMax = 256;
// Of what is unfolded at a time. An H100 has 50 MB of second-level cache, and what the product reads besides
// goes through it, too.
constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;

std::int64_t inputs_of(const Layer& layer) { return layer.in.channels * layer.kernel * layer.kernel; }

template <typename T>
std::int64_t unfolded_bytes(const Layer& layer) {
  return inputs_of(layer) * layer.out.height * layer.out.width * static_cast<std::int64_t>(sizeof(T));
}

// As many samples as may be, in chunks of the same size.
template <typename T>
int chunk_of(const Layer& layer, int samples) {
  const std::int64_t product_bytes = layer.weight.size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most =
      std::max<std::int64_t>(1, kChunkBytes / std::max(unfolded_bytes<T>(layer), product_bytes));
  const std::int64_t chunks = (samples + most - 1) / most;
  return static_cast<int>((samples + chunks - 1) / chunks);
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

template <typename T>
bool UnfoldedFilter<T>::suits(const Layer& layer) {
  return inputs_of(layer) <= kInputsMax && unfolded_bytes<T>(layer) <= kChunkBytes;
}

template <typename T>
UnfoldedFilter<T>::UnfoldedFilter(const GpuThread& gpu, const Layer& layer, int samples, Precision precision)
    : gpu_(gpu),
      shape_(window_shape_of(layer)),
      samples_(samples),
      in_channels_(static_cast<int>(layer.in.channels)),
      out_channels_(static_cast<int>(layer.out.channels)),
      inputs_(static_cast<int>(inputs_of(layer))),
      precision_(precision),
      chunk_(chunk_of<T>(layer, samples)) {}

template <typename T>
typename UnfoldedFilter<T>::Parts UnfoldedFilter<T>::parts() const {
  const auto chunk = static_cast<std::size_t>(chunk_);
  const auto inputs = static_cast<std::size_t>(inputs_);
  const std::size_t weights = inputs * static_cast<std::size_t>(out_channels_);
  Parts parts{};
  parts.products = aligned(chunk * inputs * static_cast<std::size_t>(plane()) * sizeof(T));
  parts.group_sums = parts.products + aligned(chunk * weights * sizeof(float));
  parts.end = parts.group_sums + static_cast<std::size_t>(row_groups(chunk_)) * weights * sizeof(double);
  return parts;
}

template <typename T>
std::size_t UnfoldedFilter<T>::workspace_bytes() const {
  return parts().end;
}

template <typename T>
Status UnfoldedFilter<T>::compute(void* workspace, const T* in, const T* out_difference,
                                  float* gradient) const {
  auto* const bytes = static_cast<std::byte*>(workspace);
  auto* const unfolded = static_cast<T*>(workspace);
  auto* const products = reinterpret_cast<float*>(bytes + parts().products);
  auto* const group_sums = reinterpret_cast<double*>(bytes + parts().group_sums);
  const std::ptrdiff_t image = std::ptrdiff_t{in_channels_} * shape_.in_height * shape_.in_width;
  for (int first = 0; first < samples_; first += chunk_) {
    const int count = std::min(chunk_, samples_ - first);
    const Unfold<T> unfold{shape_, in + first * image, unfolded};
    PACELINE_CUDA(launch_each(gpu_.compute(), count * in_channels_ * plane(), unfold));
    PACELINE_RETURN_IF_ERROR(multiply(unfolded,
                                      out_difference + std::ptrdiff_t{first} * out_channels_ * plane(), count,
                                      first == 0 ? 0.0F : 1.0F, products));
  }
  const int weights = inputs_ * out_channels_;
  const int groups = row_groups(chunk_);
  const SumRows<float, double> in_groups{products, chunk_, weights, groups, group_sums};
  PACELINE_CUDA(launch_each(gpu_.compute(), groups * weights, in_groups));
  const SumRows<double, float> of_groups{group_sums, groups, weights, 1, gradient};
  PACELINE_CUDA(launch_each(gpu_.compute(), weights, of_groups));
  return Status::ok();
}

// products[n] = d out_n * A_n^T + beta * what was there, for `count` samples. cuBLAS counts in columns: our
// rows are its columns, and the product's transpose is what it is asked for.
template <typename T>
Status UnfoldedFilter<T>::multiply(const T* unfolded, const T* out_difference, int count, float beta,
                                   float* products) const {
  constexpr cudaDataType_t kType = TypeNames<T>::kCublas;
  const float one = 1.0F;
  const long long inputs = inputs_;
  const long long outputs = out_channels_;
  PACELINE_CUDA(cublasGemmStridedBatchedEx(
      gpu_.cublas(), CUBLAS_OP_T, CUBLAS_OP_N, inputs_, out_channels_, plane(), &one, unfolded, kType,
      plane(), inputs * plane(), out_difference, kType, plane(), outputs * plane(), &beta, products,
      CUDA_R_32F, inputs_, inputs * outputs, count, cublas_compute(precision_), CUBLAS_GEMM_DEFAULT));
  return Status::ok();
}

template <typename T>
Result<float> UnfoldedFilter<T>::measure_ms() const {
  constexpr int kRuns = 5;  // put into the stream together: the launches are not what is to be measured
  const std::int64_t in_size = std::int64_t{samples_} * in_channels_ * shape_.in_height * shape_.in_width;
  const std::int64_t out_size = std::int64_t{samples_} * out_channels_ * plane();
  PACELINE_ASSIGN_OR_RETURN(const auto in, make_device_memory<T>(in_size));
  PACELINE_ASSIGN_OR_RETURN(const auto out_difference, make_device_memory<T>(out_size));
  PACELINE_ASSIGN_OR_RETURN(const auto workspace,
                            make_device_memory<std::byte>(static_cast<std::int64_t>(workspace_bytes())));
  PACELINE_ASSIGN_OR_RETURN(const auto gradient,
                            make_device_memory<float>(std::int64_t{inputs_} * out_channels_));
  PACELINE_ASSIGN_OR_RETURN(const Event begin, make_timed_event());
  PACELINE_ASSIGN_OR_RETURN(const Event end, make_timed_event());
  PACELINE_CUDA(cudaMemsetAsync(in.data(), 0, in.all().size_bytes(), gpu_.compute()));
  PACELINE_CUDA(cudaMemsetAsync(out_difference.data(), 0, out_difference.all().size_bytes(), gpu_.compute()));
  const auto run = [&] {
    return compute(workspace.data(), in.data(), out_difference.data(), gradient.data());
  };
  PACELINE_RETURN_IF_ERROR(run());  // what a library makes at its first use is made here
  PACELINE_CUDA(cudaEventRecord(begin.get(), gpu_.compute()));
  for (int i = 0; i < kRuns; ++i) PACELINE_RETURN_IF_ERROR(run());
  PACELINE_CUDA(cudaEventRecord(end.get(), gpu_.compute()));
  PACELINE_CUDA(cudaEventSynchronize(end.get()));
  float milliseconds = 0.0F;
  PACELINE_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return milliseconds / kRuns;
}

template class UnfoldedFilter<float>;
template class UnfoldedFilter<Bfloat16>;
template class UnfoldedFilter<Float16>;

}  // namespace paceline::cuda
