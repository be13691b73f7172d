// A ReLU that no layer in front of it does.
#include "worker/model/layers/onednn_layer.h"

namespace paceline {
namespace {

using onednn::memory;
using onednn::Program;

// The backward pass goes by the output. A dropout after it changes the output in place: that only scales
// what is positive, or zeroes it where the difference is zero, too.
dnnl::eltwise_forward::primitive_desc relu_desc(const Program& program, const memory::desc& desc) {
  return onednn::describe::eltwise(program.engine(), dnnl::algorithm::eltwise_relu_use_dst_for_bwd, desc);
}

class Relu final : public onednn::OnednnLayer {
 public:
  memory forward(Program& program, const onednn::Surroundings& around) override {
    const memory& source = around.sources[0];
    output_ = around.may_overwrite ? source : program.make(source.get_desc());
    program.append<dnnl::eltwise_forward>(Program::Pass::kForward, relu_desc(program, source.get_desc()),
                                          {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output_}});
    return output_;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    return {onednn::relu_backward(program, output_, difference)};
  }

  bool reads_output() const override { return true; }

 private:
  memory output_;
};

}  // namespace

memory onednn::relu_backward(Program& program, const memory& output, const memory& difference) {
  // Element by element, a difference must lie as the activations do.
  const memory::desc desc = output.get_desc();
  memory result = program.in_format(Pass::kBackward, difference, desc);
  const auto backward = describe::eltwise_backward(program.engine(), relu_desc(program, desc),
                                                   dnnl::algorithm::eltwise_relu_use_dst_for_bwd, desc);
  program.append<dnnl::eltwise_backward>(
      Pass::kBackward, backward,
      {{DNNL_ARG_DST, output}, {DNNL_ARG_DIFF_DST, result}, {DNNL_ARG_DIFF_SRC, result}});
  return result;
}

namespace layers::relu {
extern const onednn::OnednnKind kOnednn{.make = onednn::made<Relu>, .narrow = true, .is_relu = true};
}  // namespace layers::relu

}  // namespace paceline
