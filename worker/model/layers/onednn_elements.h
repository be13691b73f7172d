// A layer that makes one element of those at the same place of its inputs (reference_elements.h), as a loop between the
// primitives: over whatever format its first input has.
#pragma once

#include <span>
#include <vector>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

template <typename Function>
class Elements final : public OnednnLayer {
 public:
  memory forward(Program& program, const Surroundings& around) override {
    const memory::desc desc = around.sources[0].get_desc();
    for (const memory& source : around.sources) {
      sources_.push_back(program.in_format(Pass::kForward, source, desc));
    }
    memory output = program.make(desc);
    program.append_loop(Pass::kForward, {sources_, {&output, 1}}, [this, output] {
      const std::vector<const float*> inputs = starts();
      Function::template values<float>(std::span(inputs), all(output));
    });
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    const memory::desc desc = sources_[0].get_desc();
    const memory read = program.in_format(Pass::kBackward, difference, desc);
    std::vector<memory> differences(wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) differences[k] = program.make(desc);
    }
    program.append_loop(Pass::kBackward, {sources_, differences, {&read, 1}}, [this, read, differences] {
      const std::vector<const float*> inputs = starts();
      for (std::size_t k = 0; k < differences.size(); ++k) {
        if (!differences[k]) continue;
        Function::template differences<float>(std::span(inputs), k, floats_of(read), all(differences[k]));
      }
    });
    return differences;
  }

 private:
  // With what fills up blocks.
  static std::span<float> all(const memory& values) {
    return {floats_of(values), values.get_desc().get_size() / sizeof(float)};
  }
  std::vector<const float*> starts() const {
    std::vector<const float*> starts;
    for (const memory& source : sources_) starts.push_back(floats_of(source));
    return starts;
  }

  std::vector<memory> sources_;
};

}  // namespace paceline::onednn
