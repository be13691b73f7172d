// A function of each element whose derivative follows from its value: sigmoid, tanh.
#pragma once

#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

class Curve final : public OnednnLayer {
 public:
  // `function`: one of the library's that go back by their output (..._use_dst_for_bwd).
  explicit Curve(dnnl::algorithm function) : function_(function) {}

  memory forward(Program& program, const Surroundings& around) override {
    const memory& source = around.sources[0];
    output_ = program.make(source.get_desc());
    program.append<dnnl::eltwise_forward>(Pass::kForward, forward_desc(program, source.get_desc()),
                                          {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output_}});
    return output_;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory::desc desc = output_.get_desc();
    const memory result = program.in_format(Pass::kBackward, difference, desc);
    const auto backward =
        describe::eltwise_backward(program.engine(), forward_desc(program, desc), function_, desc);
    program.append<dnnl::eltwise_backward>(
        Pass::kBackward, backward,
        {{DNNL_ARG_DST, output_}, {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_DIFF_SRC, result}});
    return {result};
  }

  bool reads_output() const override { return true; }

 private:
  dnnl::eltwise_forward::primitive_desc forward_desc(const Program& program, const memory::desc& desc) const {
    return describe::eltwise(program.engine(), function_, desc);
  }

  const dnnl::algorithm function_;
  memory output_;
};

}  // namespace paceline::onednn
