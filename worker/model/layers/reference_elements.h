// A layer that makes one element of those at the same place of its inputs. `Function` has its value and its derivative by
// input k: layers/<kind>/elements.h.
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
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = Function::template value<double>(std::span(inputs), i);
    }
    pass.keep(out);
  }

  void backward(const ReferencePass&, std::span<const Values* const> in, const Values&,
                const Values& out_difference, std::span<Values> in_differences) override {
    const std::vector<const double*> inputs = starts_of(in);
    for (std::size_t k = 0; k < in.size(); ++k) {
      for (std::size_t i = 0; i < out_difference.size(); ++i) {
        in_differences[k][i] =
            out_difference[i] * Function::template derivative<double>(std::span(inputs), k, i);
      }
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
