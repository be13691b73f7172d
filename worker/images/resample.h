// Makes a picture larger or smaller: bilinear, antialiased as Pillow's resize does it (a triangle that is as
// wide as the reduction), horizontally first, each direction rounded to bytes. Weights have 14 bits where
// Pillow's have 22, so that two are multiplied and added in one instruction; the result is within one level.
//
// Worked example: 4 pixels to 2, scale 2. Output 0 has its centre at 1.0 and reaches 2 to both sides: the
// weights of inputs 0, 1, 2 (centres .5, 1.5, 2.5) are .75, .75, .25, divided by their sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/images/picture.h"
#include "worker/images/pixel_loops.h"

namespace paceline {

// How the outputs [first, first + count) of one direction come from its inputs.
struct Axis {
  // `from` inputs become `to` outputs, of which those from `first` on are wanted, `count` > 0 of them.
  // `offset`, `length`: where the picture's beginning lies among the inputs and how long it is, where that is
  // no whole number of them: after a decoding at 1/shrink.
  static Axis make(double offset, double length, int from, int to, int first, int count);
  static Axis make(int from, int to, int first, int count) { return make(0, from, from, to, first, count); }

  static constexpr int kWeightBits = pixels::kWeightBits;
  int begin = 0;                      // the first input that is needed
  int end = 0;                        // after the last
  int taps = 0;                       // inputs of an output; even
  std::vector<int> starts;            // of each output: its first input, counted from `begin`
  std::vector<std::int16_t> weights;  // of each output `taps`, which add up to 1 << kWeightBits; 0 after the
                                      // last
  int count() const { return static_cast<int>(starts.size()); }
  // Each output is the input of the same number.
  bool is_copy() const;
};

// Resizes a picture whose rows come a few at a time, as a decoder makes them: what is worked on is still in the
// processor's nearest memory then. How the rows are cut changes nothing. Keeps its memory from picture to
// picture. Thread: one.
class Resampler {
 public:
  // A picture with the inputs [columns.begin, columns.end) x [rows.begin, rows.end). The axes outlive its rows.
  // The bits are the same with all loops.
  void begin(const Axis& columns, const Axis& rows, const pixels::Loops& with = pixels::best());

  // Takes the next rows of the inputs, topmost first, each with pixels::kReadBeyond bytes after it that may be
  // read. Returns those rows of the output for which it had waited, perhaps none; valid until the next call.
  const Picture& take(const pixels::RowsIn& inputs);

  std::size_t bytes() const { return narrowed_.bytes.capacity() + made_.bytes.capacity(); }
  void release();

 private:
  const Axis* columns_ = nullptr;
  const Axis* rows_ = nullptr;
  const pixels::Loops* loops_ = nullptr;
  Picture narrowed_;  // the inputs after the first direction
  int taken_ = 0;     // rows of it that are there
  int next_ = 0;      // row of the output
  Picture made_;
};

}  // namespace paceline
