// What a loss layer sees of a mini-batch, and what makes a loss a layer of the reference back end. A loss is a struct
// of two functions over rows, in layers/<kind>/rows.h; both back ends compute with it:
//
//   losses(rows, out)              out[n]: the loss of sample n, so that their mean is the layer's loss
//   differences(rows, d, into)     into[k]: d(loss)/d(input k), where d[n] is d(loss)/d(out[n]); null: not wanted.
//                                  What it does not write is 0.
//
// Each has a count of hits, too: hits(rows).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/model/batch.h"
#include "worker/model/layers/reference_layer.h"

namespace paceline {

template <typename Real>
struct LossRows {
  const Layer& layer;
  std::int64_t samples;
  std::span<const Real* const> inputs;  // each samples x layer.in.size(), row-major
  decltype(Batch::labels) labels;       // of the samples

  const Real* row(std::size_t input, std::int64_t n) const { return inputs[input] + n * layer.in.size(); }
  // What input 0 is compared with: input 1, or where there is none the label's number.
  double target(std::int64_t n, std::int64_t i) const {
    return inputs.size() > 1 ? static_cast<double>(row(1, n)[i])
                             : static_cast<double>(labels[static_cast<std::size_t>(n)]);
  }
};

template <typename Loss>
class ReferenceLoss final : public ReferenceLayer {
 public:
  explicit ReferenceLoss(const Layer& layer) : layer_(layer) {}

  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    const Inputs inputs(in);
    const LossRows<double> rows = rows_of(pass, inputs);
    Loss::losses(rows, std::span(out));
    if (layer_.loss.counts_hits && pass.hits != nullptr) *pass.hits += Loss::hits(rows);
  }

  void backward(const ReferencePass& pass, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const Inputs inputs(in);
    std::vector<double*> into;
    for (Values& difference : in_differences) into.push_back(difference.data());
    Loss::differences(rows_of(pass, inputs), std::span<const double>(out_difference),
                      std::span<double* const>(into));
  }

 private:
  struct Inputs {
    explicit Inputs(std::span<const Values* const> in) {
      for (const Values* const values : in) at.push_back(values->data());
    }
    std::vector<const double*> at;
  };
  LossRows<double> rows_of(const ReferencePass& pass, const Inputs& inputs) const {
    return {layer_, pass.samples, inputs.at, pass.batch.labels};
  }

  const Layer& layer_;
};

}  // namespace paceline
