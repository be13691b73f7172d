//   out = largest x_k      d(x_k) = d(out) for the largest, of equal ones the first; 0 for the others
#pragma once

#include <cstddef>
#include <span>

namespace paceline::layers::maximum {

struct Maximum {
  template <typename Real>
  static void values(std::span<const Real* const> in, std::span<Real> out) {
    const Real* largest = in[0];
    Real* const to = out.data();
    for (const Real* const other : in.subspan(1)) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const Real mine = largest[i];
        const Real its = other[i];
        to[i] = its > mine ? its : mine;
      }
      largest = to;
    }
  }
  template <typename Real>
  static void differences(std::span<const Real* const> in, std::size_t k, const Real* of_out,
                          std::span<Real> of_input) {
    const Real* const own = in[k];
    const Real* left = of_out;  // where it is the largest of those that were looked at
    Real* const to = of_input.data();
    for (std::size_t other = 0; other < in.size(); ++other) {
      if (other == k) continue;
      const Real* const its = in[other];
      if (other < k) {
        keep(left, of_input, [own, its](std::size_t i) { return own[i] > its[i]; });
      } else {
        keep(left, of_input, [own, its](std::size_t i) { return own[i] >= its[i]; });
      }
      left = to;
    }
  }

 private:
  // Everything is read whatever comes of it, so that the compiler may take several at a time.
  template <typename Real, typename Where>
  static void keep(const Real* left, std::span<Real> to, const Where& where) {
    Real* const kept = to.data();
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Real value = left[i];
      kept[i] = where(i) ? value : Real(0);
    }
  }
};

}  // namespace paceline::layers::maximum
