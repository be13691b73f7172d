//   out = product of all x_k      d(x_k) = d(out) times the product of the others
#pragma once

#include <cstddef>
#include <span>

namespace paceline::layers::multiply {

struct Multiply {
  template <typename Real>
  static void values(std::span<const Real* const> in, std::span<Real> out) {
    times(in[0], in[1], out);
    for (const Real* const other : in.subspan(2)) times(out.data(), other, out);
  }
  template <typename Real>
  static void differences(std::span<const Real* const> in, std::size_t k, const Real* of_out,
                          std::span<Real> of_input) {
    const Real* product = of_out;
    for (std::size_t other = 0; other < in.size(); ++other) {
      if (other == k) continue;
      times(product, in[other], of_input);
      product = of_input.data();
    }
  }

 private:
  template <typename Real>
  static void times(const Real* a, const Real* b, std::span<Real> out) {
    Real* const to = out.data();
    for (std::size_t i = 0; i < out.size(); ++i) to[i] = a[i] * b[i];
  }
};

}  // namespace paceline::layers::multiply
