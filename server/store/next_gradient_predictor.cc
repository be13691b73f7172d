// Making a prediction, keeping it, and judging it.
#include "server/store/next_gradient_predictor.h"

#include <algorithm>

namespace paceline::server {
namespace {

// So many wrong ones in a row, and partial gradients are no longer prepared.
constexpr int kWrongMax = 2;

}  // namespace

NextGradientPredictor::NextGradientPredictor(Cluster cluster, std::int64_t size)
    : cluster_(cluster), size_(size), partial_(cluster.workers()) {}

void NextGradientPredictor::arrived(Named gradient, std::int64_t begin, bool whole) {
  const std::uint32_t rank = cluster_.rank_of(gradient.worker).value;
  Partial& partial = partial_[rank];
  if (!whole) {
    partial.clock = gradient.clock;
    partial.floats = size_ - begin;
    if (partial.passed_over) return;
    if (!leading_ || partial.floats > partial_[*leading_].floats) leading_ = rank;
    return;
  }
  partial = Partial();
  if (leading_ == rank) find_leading();
  whole_.push_back(gradient);
  if (!prediction_ || prediction_->whole) return;
  if (prediction_->gradient == gradient) {
    wrong_partial_ = 0;
    prediction_->whole = true;
  } else {
    ++wrong_partial_;
    pass_over(*prediction_);
  }
}

void NextGradientPredictor::decided(std::span<const wire::Contribution> contributions) {
  for (const wire::Contribution& c : contributions) {
    const Named named{c.worker, c.clock};
    if (const auto place = std::find(whole_.begin(), whole_.end(), named); place != whole_.end()) {
      whole_.erase(place);
    }
    if (!prediction_) continue;
    if (prediction_->gradient == named) {
      prediction_.reset();
    } else if (prediction_->whole) {
      pass_over(*prediction_);
    }
  }
}

void NextGradientPredictor::forget_missing(const GradientStore& gradients) {
  for (std::uint32_t rank = 0; rank < partial_.size(); ++rank) {
    Partial& partial = partial_[rank];
    if (partial.floats > 0 && gradients.begun(cluster_.worker_at(Rank(rank)), partial.clock) == nullptr) {
      partial = Partial();
    }
  }
  std::erase_if(whole_, [&](const Named& n) { return gradients.find(n.worker, n.clock) == nullptr; });
  if (prediction_ && gradients.begun(prediction_->gradient.worker, prediction_->gradient.clock) == nullptr)
    prediction_.reset();
  find_leading();
}

std::optional<NextGradientPredictor::Named> NextGradientPredictor::next() {
  if (!prediction_) {
    if (!whole_.empty()) {
      prediction_ = Prediction{whole_.front(), true};
    } else if (leading_ && (2 * partial_[*leading_].floats >= size_ || cluster_.workers() == 1)) {
      prediction_ = Prediction{{cluster_.worker_at(Rank(*leading_)), partial_[*leading_].clock}, false};
    }
  }
  if (!prediction_ || (!prediction_->whole && wrong_partial_ >= kWrongMax)) return std::nullopt;
  return prediction_->gradient;
}

void NextGradientPredictor::find_leading() {
  leading_.reset();
  for (std::uint32_t rank = 0; rank < partial_.size(); ++rank) {
    const Partial& partial = partial_[rank];
    if (partial.floats == 0 || partial.passed_over) continue;
    if (!leading_ || partial.floats > partial_[*leading_].floats) leading_ = rank;
  }
}

void NextGradientPredictor::pass_over(const Prediction& wrong) {
  if (wrong.whole) {
    std::erase(whole_, wrong.gradient);
  } else {
    partial_[cluster_.rank_of(wrong.gradient.worker).value].passed_over = true;
    find_leading();
  }
  prediction_.reset();
}

}  // namespace paceline::server
