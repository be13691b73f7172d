//   out = product of all x_k      d(x_k) = d(out) times the product of the others
#pragma once

#include <cstddef>
#include <span>

namespace paceline::layers::multiply {

struct Multiply {
  template <typename Real>
  static Real value(std::span<const Real* const> in, std::size_t i) {
    Real product = in[0][i];
    for (const Real* const other : in.subspan(1)) product *= other[i];
    return product;
  }
  template <typename Real>
  static Real derivative(std::span<const Real* const> in, std::size_t k, std::size_t i) {
    Real product = Real(1);
    for (std::size_t other = 0; other < in.size(); ++other) {
      if (other != k) product *= in[other][i];
    }
    return product;
  }
};

}  // namespace paceline::layers::multiply
