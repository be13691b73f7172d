// Half the squared distance of two inputs a and b, or of a and the label's number (Caffe, euclidean_loss_layer.cpp):
//
//   out = 1/2 sum over elements of (a - b)^2       d(out)/d(a) = a - b = - d(out)/d(b)
#pragma once

#include "worker/model/layers/loss_rows.h"

namespace paceline::layers::euclidean_loss {

struct EuclideanLoss {
  template <typename Real>
  static void losses(const LossRows<Real>& rows, std::span<Real> out) {
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      const Real* const a = rows.row(0, n);
      double sum = 0.0;
      for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
        const double apart = a[i] - rows.target(n, i);
        sum += apart * apart;
      }
      out[static_cast<std::size_t>(n)] = static_cast<Real>(sum / 2);
    }
  }

  template <typename Real>
  static void differences(const LossRows<Real>& rows, std::span<const Real> of_losses,
                          std::span<Real* const> into) {
    for (std::size_t k = 0; k < into.size(); ++k) {
      if (into[k] == nullptr) continue;
      for (std::int64_t n = 0; n < rows.samples; ++n) {
        const Real* const a = rows.row(0, n);
        Real* const d = into[k] + n * rows.layer.in.size();
        const double scale = (k == 0 ? 1.0 : -1.0) * of_losses[static_cast<std::size_t>(n)];
        for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
          d[i] = static_cast<Real>((a[i] - rows.target(n, i)) * scale);
        }
      }
    }
  }

  template <typename Real>
  static std::int64_t hits(const LossRows<Real>&) {
    return 0;
  }
};

}  // namespace paceline::layers::euclidean_loss
