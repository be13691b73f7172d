// The kernels that add up: a bias's gradient, a batch norm's statistics (norm_bodies.h), and a filter's gradient
// of many samples (unfolded_filter.h). Sums are in double, always of the same ones in the same order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "common/host_device.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/vectors.h"

namespace paceline::cuda {

PACELINE_HOST_DEVICE inline double widened(double value) { return value; }
PACELINE_HOST_DEVICE inline double widened(float value) { return static_cast<double>(value); }
PACELINE_HOST_DEVICE inline double widened(Bfloat16 value) {
  return static_cast<double>(static_cast<float>(value));
}
PACELINE_HOST_DEVICE inline double widened(Float16 value) {
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

// A mini-batch by channel: samples x channels x plane, of which a channel has samples x plane values.
struct PlanesOfChannels {
  int samples;
  int channels;
  int plane;  // height x width

  PACELINE_HOST_DEVICE int values() const { return samples * plane; }
  // Of threads that add up one channel.
  PACELINE_HOST_DEVICE int groups() const { return groups_of(values(), 4096); }
  PACELINE_HOST_DEVICE int channel_of(int element) const {
    return static_cast<int>(static_cast<unsigned>(element) / static_cast<unsigned>(plane) %
                            static_cast<unsigned>(channels));
  }

  // use(element, std::integral_constant of how many from there on) for what thread `index` of `parts` has of a
  // channel: vectors of T (vectors.h), where a plane is whole ones, else single elements.
  template <typename T, typename Use>
  PACELINE_HOST_DEVICE void for_each_part(int channel, int index, int parts, const Use& use) const {
    if (plane % kVectorSize<T> == 0) {
      in_vectors<kVectorSize<T>>(channel, index, parts, use);
    } else {
      in_vectors<1>(channel, index, parts, use);
    }
  }

  // As map_vector(), map being told the channel, too: map(j, channel, from[j]…).
  template <typename T, typename Map, typename... From>
  PACELINE_HOST_DEVICE void map_by_channel(int i, int elements, const Map& map, T* to,
                                           const From*... from) const {
    if (plane % kVectorSize<T> == 0) {  // all of one channel
      const int channel = channel_of(i * kVectorSize<T>);
      map_vector(i, elements, [&](int j, From... value) { return map(j, channel, value...); }, to, from...);
    } else {
      map_vector(
          i, elements, [&](int j, From... value) { return map(j, channel_of(j), value...); }, to, from...);
    }
  }

 private:
  template <int kSize, typename Use>
  PACELINE_HOST_DEVICE void in_vectors(int channel, int index, int parts, const Use& use) const {
    const auto vectors = static_cast<unsigned>(plane / kSize);  // of a plane
    const unsigned end = static_cast<unsigned>(samples) * vectors;
    for (auto j = static_cast<unsigned>(index); j < end; j += static_cast<unsigned>(parts)) {
      const unsigned sample = j / vectors;
      const unsigned row = sample * static_cast<unsigned>(channels) + static_cast<unsigned>(channel);
      use(std::ptrdiff_t{row} * plane + std::ptrdiff_t{j - sample * vectors} * kSize,
          std::integral_constant<int, kSize>{});
    }
  }
};

// What goes back through a ReLU that gave `relu_out`, which is written over what came.
template <typename T, int kSize>
PACELINE_HOST_DEVICE Vector<T, kSize> masked_in_place(const T* relu_out, T* difference, std::ptrdiff_t at) {
  const auto out = load_vector<T, kSize>(relu_out + at);
  auto vector = load_vector<T, kSize>(difference + at);
  for (int k = 0; k < kSize; ++k) {
    if (!(static_cast<float>(out.at[k]) > 0.0F)) vector.at[k] = static_cast<T>(0.0F);
  }
  store_vector(difference + at, vector);
  return vector;
}

// What launch_channel_sums() (launch.h) adds up of each channel has
//
//   Sum                           what is added, with +=; no more than kSumsMax doubles
//   part(channel, index, parts)   what one of `parts` threads of a channel adds up
//   finish(channel, sum)          what becomes of the whole
//   shape, group_sums             room for channels x kGroupsMax Sums
constexpr int kSumsMax = 2;

// A bias's gradient where it is of whole planes. Where a ReLU stands after the bias its mask is applied first, and
// what is left is written, too.
template <typename T>
struct ChannelSums {
  using Sum = double;

  const T* relu_out;  // what came out of the ReLU; null: there is none
  T* values;
  PlanesOfChannels shape;
  double* group_sums;
  float* sums;

  PACELINE_HOST_DEVICE double part(int channel, int index, int parts) const {
    double sum = 0.0;
    shape.for_each_part<T>(channel, index, parts, [&](std::ptrdiff_t at, auto size) {
      constexpr int kSize = decltype(size)::value;
      const auto vector = relu_out == nullptr ? load_vector<T, kSize>(values + at)
                                              : masked_in_place<T, kSize>(relu_out, values, at);
      for (int k = 0; k < kSize; ++k) sum += widened(vector.at[k]);
    });
    return sum;
  }
  PACELINE_HOST_DEVICE void finish(int channel, double sum) const { sums[channel] = static_cast<float>(sum); }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_SUM_BODIES(X) \
  X(SumRows<float, double>)         \
  X(SumRows<Bfloat16, double>)      \
  X(SumRows<Float16, double>)       \
  X(SumRows<double, float>)

}  // namespace paceline::cuda
