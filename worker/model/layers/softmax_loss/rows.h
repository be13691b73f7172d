// Softmax cross-entropy of scores, one for each class (worker/model/loss_row.h has the formulas). A sample whose label
// is `ignore_label` has no loss and no difference; by the divisor `valid` the mean is that of the others.
//
//   3 samples, one ignored, valid     each of the other two counts 3/2, so that the mean over 3 is theirs over 2
//
// A hit is a label of which fewer than top_k classes have a larger score, or an equal one in front of it. Where a score
// is NaN there is none.
#pragma once

#include <cmath>

#include "worker/model/layers/loss_rows.h"
#include "worker/model/loss_row.h"

namespace paceline::layers::softmax_loss {

struct SoftmaxLoss {
  template <typename Real>
  static void losses(const LossRows<Real>& rows, std::span<Real> out) {
    const double share = share_of(rows);
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      const auto at = static_cast<std::size_t>(n);
      out[at] = Real(0);
      if (is_ignored(rows, n)) continue;
      const RowLoss row =
          softmax_row<Real>(rows.row(0, n), rows.labels[at], rows.layer.in.size(), 0.0, 1.0, nullptr);
      out[at] = static_cast<Real>(row.loss * share);
    }
  }

  template <typename Real>
  static void differences(const LossRows<Real>& rows, std::span<const Real> of_losses,
                          std::span<Real* const> into) {
    if (into[0] == nullptr) return;
    const double share = share_of(rows);
    for (std::int64_t n = 0; n < rows.samples; ++n) {
      if (is_ignored(rows, n)) continue;
      const auto at = static_cast<std::size_t>(n);
      softmax_row<Real>(rows.row(0, n), rows.labels[at], rows.layer.in.size(), 0.0,
                        static_cast<double>(of_losses[at]) * share, into[0] + n * rows.layer.in.size());
    }
  }

  template <typename Real>
  static std::int64_t hits(const LossRows<Real>& rows) {
    std::int64_t hits = 0;
    for (std::int64_t n = 0; n < rows.samples; ++n) hits += is_hit(rows, n) ? 1 : 0;
    return hits;
  }

 private:
  // -1 is kept as it is in a label's bits.
  template <typename Real>
  static bool is_ignored(const LossRows<Real>& rows, std::int64_t n) {
    const auto& ignored = rows.layer.loss.ignore_label;
    return ignored && static_cast<Label>(*ignored) == rows.labels[static_cast<std::size_t>(n)];
  }

  // What a sample that counts is multiplied by.
  template <typename Real>
  static double share_of(const LossRows<Real>& rows) {
    if (rows.layer.loss.divisor != LossDivisor::kValid) return 1.0;
    std::int64_t valid = 0;
    for (std::int64_t n = 0; n < rows.samples; ++n) valid += is_ignored(rows, n) ? 0 : 1;
    return static_cast<double>(rows.samples) / static_cast<double>(std::max<std::int64_t>(1, valid));
  }

  template <typename Real>
  static bool is_hit(const LossRows<Real>& rows, std::int64_t n) {
    if (is_ignored(rows, n)) return false;
    const Real* const scores = rows.row(0, n);
    const auto label = static_cast<std::int64_t>(rows.labels[static_cast<std::size_t>(n)]);
    std::int64_t in_front = 0;
    for (std::int64_t k = 0; k < rows.layer.in.size(); ++k) {
      if (std::isnan(scores[k])) return false;
      if (scores[k] > scores[label] || (scores[k] == scores[label] && k < label)) ++in_front;
    }
    return in_front < rows.layer.loss.top_k;
  }
};

}  // namespace paceline::layers::softmax_loss
