// A layer that makes one element of those at the same place of its inputs, of which it has at least two. `Function` is
// in layers/<kind>/elements.h:
//
//   values(in, out)                          of all elements
//   differences(in, k, of_out, of_input)     d(in[k]) of all elements
#pragma once

#include <memory>
#include <vector>

#include "worker/model/layers/reference_layer.h"

namespace paceline {

template <typename Function>
class ReferenceElements final : public ReferenceLayer {
 public:
  void forward(const ReferencePass& pass, std::span<const Values* const> in, Values& out) override {
    const std::vector<const double*> inputs = starts_of(in);
    Function::template values<double>(std::span(inputs), std::span(out));
    pass.keep(out);
  }

  void backward(const ReferencePass&, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const std::vector<const double*> inputs = starts_of(in);
    for (std::size_t k = 0; k < in.size(); ++k) {
      Function::template differences<double>(std::span(inputs), k, out_difference.data(),
                                             std::span(in_differences[k]));
    }
  }

 private:
  static std::vector<const double*> starts_of(std::span<const Values* const> in) {
    std::vector<const double*> starts;
    for (const Values* const values : in) starts.push_back(values->data());
    return starts;
  }
};

}  // namespace paceline
