// Several elements that lie side by side, read and written as one: a GPU's thread moves up to 16 bytes at a
// time, and with less it does not get at all that its memory can give. What is worked out once for each index
// is worked out once for all of them, too.
//
//   float 4   bfloat16 8   in 16 bytes
#pragma once

#include "common/host_device.h"

namespace paceline::cuda {

constexpr int kVectorBytes = 16;

template <typename T, int kSize = kVectorBytes / static_cast<int>(sizeof(T))>
struct alignas(sizeof(T) * kSize < kVectorBytes ? sizeof(T) * kSize : kVectorBytes) Vector {
  T at[kSize];
};

// How many elements a whole one has.
template <typename T>
constexpr int kVectorSize = kVectorBytes / static_cast<int>(sizeof(T));

// How many there are of `elements`, the last perhaps not whole.
template <typename T>
int vectors_of(int elements) {
  return elements / kVectorSize<T> + (elements % kVectorSize<T> == 0 ? 0 : 1);
}

// `from` and `to`: aligned as the vector is.
template <typename T, int kSize = kVectorSize<T>>
PACELINE_HOST_DEVICE Vector<T, kSize> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, kSize>*>(from);
}
template <typename T, int kSize>
PACELINE_HOST_DEVICE void store_vector(T* to, const Vector<T, kSize>& vector) {
  *reinterpret_cast<Vector<T, kSize>*>(to) = vector;
}

template <typename T, int kSize, typename Map, typename... From>
PACELINE_HOST_DEVICE Vector<T, kSize> map_each(int first, const Map& map,
                                               const Vector<From, kSize>&... from) {
  Vector<T, kSize> mapped;
  for (int k = 0; k < kSize; ++k) mapped.at[k] = map(first + k, from.at[k]...);
  return mapped;
}

// to[j] = map(j, from[j]…) for each j of vector `i` of `elements`. All are aligned, and any may be `to`.
template <typename T, typename Map, typename... From>
PACELINE_HOST_DEVICE void map_vector(int i, int elements, const Map& map, T* to, const From*... from) {
  constexpr int kSize = kVectorSize<T>;
  const int first = i * kSize;
  if (elements - first >= kSize) {
    store_vector(to + first, map_each<T, kSize>(first, map, load_vector<From, kSize>(from + first)...));
  } else {
    for (int j = first; j < elements; ++j) to[j] = map(j, from[j]...);
  }
}

}  // namespace paceline::cuda
