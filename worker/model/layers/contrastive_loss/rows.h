// Of a pair of vectors a and b at distance d, alike where the label is not 0 (Hadsell, Chopra and LeCun,
// "Dimensionality reduction by learning an invariant mapping", 2006; Caffe, contrastive_loss_layer.cpp):
//
//   alike       out = d^2 / 2                         d(out)/d(a) = a - b
//   not alike   out = max(margin - d, 0)^2 / 2        d(out)/d(a) = - (margin - d) / (d + 1e-4) (a - b) within the
//                                                     margin
//   legacy      out = max(margin - d^2, 0) / 2        d(out)/d(a) = - (a - b) within it
//
// That of b has the other sign.
#pragma once

#include <cmath>

#include "worker/model/layers/loss_rows.h"

namespace paceline::layers::contrastive_loss {

struct ContrastiveLoss {
  template <typename Real>
  static void losses(const LossRows<Real>& rows, std::span<Real> out) {
    const LossConfig& loss = rows.layer.loss;
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      const double square = squared_distance(rows, n);
      const double apart = std::max(loss.margin - std::sqrt(square), 0.0);
      const double value = is_alike(rows, n) ? square
                           : loss.legacy     ? std::max(loss.margin - square, 0.0)
                                             : apart * apart;
      out[static_cast<std::size_t>(n)] = static_cast<Real>(value / 2);
    }
  }

  template <typename Real>
  static void differences(const LossRows<Real>& rows, std::span<const Real> of_losses,
                          std::span<Real* const> into) {
    for (std::size_t k = 0; k < into.size(); ++k) {
      if (into[k] == nullptr) continue;
      for (std::int64_t n = 0; n < rows.samples; ++n) {
        const Real* const a = rows.row(0, n);
        const Real* const b = rows.row(1, n);
        Real* const d = into[k] + n * rows.layer.in.size();
        const double scale = (k == 0 ? 1.0 : -1.0) * of_losses[static_cast<std::size_t>(n)] * factor(rows, n);
        for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
          d[i] = static_cast<Real>((static_cast<double>(a[i]) - b[i]) * scale);
        }
      }
    }
  }

  template <typename Real>
  static std::int64_t hits(const LossRows<Real>&) {
    return 0;
  }

 private:
  template <typename Real>
  static bool is_alike(const LossRows<Real>& rows, std::int64_t n) {
    return rows.labels[static_cast<std::size_t>(n)] != 0;
  }

  template <typename Real>
  static double squared_distance(const LossRows<Real>& rows, std::int64_t n) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < rows.layer.in.size(); ++i) {
      const double apart = static_cast<double>(rows.row(0, n)[i]) - rows.row(1, n)[i];
      sum += apart * apart;
    }
    return sum;
  }

  // Of a - b in the derivative.
  template <typename Real>
  static double factor(const LossRows<Real>& rows, std::int64_t n) {
    if (is_alike(rows, n)) return 1.0;
    const LossConfig& loss = rows.layer.loss;
    const double square = squared_distance(rows, n);
    if (loss.legacy) return loss.margin - square > 0.0 ? -1.0 : 0.0;
    const double distance = std::sqrt(square);
    return -std::max(loss.margin - distance, 0.0) / (distance + 1e-4);
  }
};

}  // namespace paceline::layers::contrastive_loss
