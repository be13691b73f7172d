// The loops over pixels of four bytes, in a copy for each instruction set: resizing in one direction after the
// other, and normalising. All give the same bits, those of the plain loops of reference().
//
// How it is built, as common/params/kernels.h: pixel_loops.cc has what every processor of the build runs,
// pixel_loops_avx2.cc what kernels for 256-bit registers make of it. So that no inline function of a header is
// compiled for a set that other callers lack, only pointers and whole numbers go in.
// Thread: any. Nothing is checked: the caller has (resample.cc, renderer.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::pixels {

inline constexpr int kWeightBits = 14;

// How the outputs of one direction come from its inputs (Axis in resample.h, which owns the arrays).
struct Taps {
  const int* starts;            // of each output: its first input
  const std::int16_t* weights;  // of each output `taps`, which add up to 1 << kWeightBits
  int taps;                     // even
  int outputs;
  int inputs;
};

inline constexpr std::size_t kReadBeyond = 32;  // bytes after the last row that may be read, not used

// Rows of pixels, `stride` bytes from one to the next.
struct RowsIn {
  const std::uint8_t* first;
  std::size_t stride;
  int count;
};
struct RowsOut {
  std::uint8_t* first;
  std::size_t stride;
};

// A sample's places for a row of pixels, one for each colour.
struct PlanesOut {
  float* red;
  float* green;
  float* blue;
};

struct Loops {
  const char* name;
  // Makes each of the rows narrower or wider: out[y][x] is the weighted sum of in[y][starts[x]] and following.
  void (*columns)(const RowsIn& in, const Taps& by, const RowsOut& out);
  // Row `output` of the other direction: the weighted sum of rows, of which the first `bytes` are made.
  void (*row)(const RowsIn& in, const Taps& by, int output, std::size_t bytes, std::uint8_t* out);
  // (pixel - mean) x scale of `count` pixels, `mean` and `scale` for each of three colours; mirrored, the last
  // pixel first.
  void (*normalize)(const std::uint8_t* pixels, int count, const float* mean, const float* scale,
                    bool is_mirrored, const PlanesOut& out);
};

// The plain loops, one operation after another.
const Loops& reference();
// The fastest that this processor has.
const Loops& best();
// All that it has.
std::vector<const Loops*> available();

}  // namespace paceline::pixels
