//   out = largest x_k      d(x_k) = d(out) for the largest, of equal ones the first; 0 for the others
#pragma once

#include <cstddef>
#include <span>

namespace paceline::layers::maximum {

struct Maximum {
  template <typename Real>
  static Real value(std::span<const Real* const> in, std::size_t i) {
    return in[largest(in, i)][i];
  }
  template <typename Real>
  static Real derivative(std::span<const Real* const> in, std::size_t k, std::size_t i) {
    return k == largest(in, i) ? Real(1) : Real(0);
  }

 private:
  template <typename Real>
  static std::size_t largest(std::span<const Real* const> in, std::size_t i) {
    std::size_t best = 0;
    for (std::size_t k = 1; k < in.size(); ++k) {
      if (in[k][i] > in[best][i]) best = k;
    }
    return best;
  }
};

}  // namespace paceline::layers::maximum
