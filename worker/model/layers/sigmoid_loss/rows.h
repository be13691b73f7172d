// Cross-entropy of each element after a sigmoid, with x the first input and t the second, or the label's number:
//
//   out = sum over elements of  log(1 + exp(-|x|)) + max(x, 0) - x t       d(out)/d(x) = sigmoid(x) - t
//
// By the divisor `elements` both are divided by the elements of a sample. Nothing goes back to t (Caffe,
// sigmoid_cross_entropy_loss_layer.cpp).
#pragma once

#include <cmath>

#include "worker/model/layers/loss_rows.h"

namespace paceline::layers::sigmoid_loss {

struct SigmoidLoss {
  template <typename Real>
  static void losses(const LossRows<Real>& rows, std::span<Real> out) {
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      const Real* const x = rows.row(0, n);
      double sum = 0.0;
      for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
        const double value = x[i];
        sum += std::log1p(std::exp(-std::abs(value))) + std::max(value, 0.0) - value * rows.target(n, i);
      }
      out[static_cast<std::size_t>(n)] = static_cast<Real>(sum * share_of(rows));
    }
  }

  template <typename Real>
  static void differences(const LossRows<Real>& rows, std::span<const Real> of_losses,
                          std::span<Real* const> into) {
    if (into[0] == nullptr) return;
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      const Real* const x = rows.row(0, n);
      Real* const d = into[0] + n * rows.layer.in.size();
      const double scale = static_cast<double>(of_losses[static_cast<std::size_t>(n)]) * share_of(rows);
      for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
        const double sigmoid = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
        d[i] = static_cast<Real>((sigmoid - rows.target(n, i)) * scale);
      }
    }
  }

  template <typename Real>
  static std::int64_t hits(const LossRows<Real>&) {
    return 0;
  }

 private:
  template <typename Real>
  static double share_of(const LossRows<Real>& rows) {
    if (rows.layer.loss.divisor != LossDivisor::kElements) return 1.0;
    return 1.0 / static_cast<double>(rows.layer.in.size());
  }
};

}  // namespace paceline::layers::sigmoid_loss
