// The kernels that add up: a bias's gradient, and a filter's of many samples (unfolded_filter.h). Sums are in
// double, always of the same ones in the same order.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>

#include "common/host_device.h"
#include "worker/model/cuda/vectors.h"

namespace paceline::cuda {

PACELINE_HOST_DEVICE inline double widened(double value) { return value; }
PACELINE_HOST_DEVICE inline double widened(float value) { return static_cast<double>(value); }
PACELINE_HOST_DEVICE inline double widened(__nv_bfloat16 value) {
  return static_cast<double>(static_cast<float>(value));
}

// Where there is much to add up, groups of threads each add up a part, and then the groups' sums are added
// up. How many groups: so many that a large GPU has work, and each of them has some to do.
constexpr int kGroupsMax = 64;
PACELINE_HOST_DEVICE constexpr int groups_of(int size, int size_of_group) {
  const int groups = size / size_of_group;
  return groups < 1 ? 1 : groups > kGroupsMax ? kGroupsMax : groups;
}
constexpr int row_groups(int rows) { return groups_of(rows, 8); }

// sums[group][column] = rows group, group + groups, … of `values` added up, in this order. Threads side by
// side read what lies side by side.
template <typename From, typename To>
struct SumRows {
  const From* values;
  int rows;
  int columns;
  int groups;
  To* sums;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const unsigned group = static_cast<unsigned>(i) / static_cast<unsigned>(columns);
    const unsigned column = static_cast<unsigned>(i) - group * static_cast<unsigned>(columns);
    double sum = 0.0;
    for (int row = static_cast<int>(group); row < rows; row += groups) {
      sum += widened(values[std::ptrdiff_t{row} * columns + column]);
    }
    sums[i] = static_cast<To>(sum);
  }
};

// A bias's gradient where it is of whole planes: sums[c] = the sum of channel c over all samples and its
// plane. Where a ReLU stands behind the bias its mask is applied first, and what is left is written, too.
// `part` is what one of `parts` threads of a channel adds up.
template <typename T>
struct ChannelSums {
  const T* relu_out;  // what came out of the ReLU; null: there is none
  T* values;
  int samples;
  int channels;
  int plane;
  double* group_sums;  // room for channels x kGroupsMax
  float* sums;

  PACELINE_HOST_DEVICE int groups() const { return groups_of(samples * plane, 4096); }

  PACELINE_HOST_DEVICE double part(int channel, int index, int parts) const {
    return plane % kVectorSize<T> == 0 ? part_of<kVectorSize<T>>(channel, index, parts)
                                       : part_of<1>(channel, index, parts);
  }

 private:
  template <int kSize>
  PACELINE_HOST_DEVICE double part_of(int channel, int index, int parts) const {
    const auto vectors = static_cast<unsigned>(plane / kSize);  // of a plane
    const unsigned end = static_cast<unsigned>(samples) * vectors;
    double sum = 0.0;
    for (auto j = static_cast<unsigned>(index); j < end; j += static_cast<unsigned>(parts)) {
      const unsigned sample = j / vectors;
      const unsigned row = sample * static_cast<unsigned>(channels) + static_cast<unsigned>(channel);
      const std::ptrdiff_t at = std::ptrdiff_t{row} * plane + std::ptrdiff_t{j - sample * vectors} * kSize;
      const auto vector = relu_out == nullptr ? load_vector<T, kSize>(values + at) : masked<kSize>(at);
      for (int k = 0; k < kSize; ++k) sum += widened(vector.at[k]);
    }
    return sum;
  }
  template <int kSize>
  PACELINE_HOST_DEVICE Vector<T, kSize> masked(std::ptrdiff_t at) const {
    const auto out = load_vector<T, kSize>(relu_out + at);
    auto vector = load_vector<T, kSize>(values + at);
    for (int k = 0; k < kSize; ++k) {
      if (!(static_cast<float>(out.at[k]) > 0.0F)) vector.at[k] = static_cast<T>(0.0F);
    }
    store_vector(values + at, vector);
    return vector;
  }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_SUM_BODIES(X) \
  X(SumRows<float, double>)         \
  X(SumRows<__nv_bfloat16, double>) \
  X(SumRows<double, float>)

}  // namespace paceline::cuda
