#include <optional>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::lrn {
namespace {

using namespace onednn;
using Forward = dnnl::lrn_forward;
using Backward = dnnl::lrn_backward;

class Lrn final : public OnednnLayer {
 public:
  explicit Lrn(const Layer& layer)
      : lrn_{.region = layer.lrn.region == LrnRegion::kAcross ? dnnl::algorithm::lrn_across_channels
                                                              : dnnl::algorithm::lrn_within_channel,
             .size = layer.lrn.size,
             .alpha = static_cast<float>(layer.lrn.alpha),
             .beta = static_cast<float>(layer.lrn.beta),
             .k = static_cast<float>(layer.lrn.k)} {}

  memory forward(Program& program, const Surroundings& around) override {
    source_ = around.sources[0];
    const memory::desc desc = source_.get_desc();
    forward_ = describe::lrn(program.engine(), desc, lrn_);
    const memory output = program.make(desc);
    workspace_ = program.make(forward_->workspace_desc());
    program.append<Forward>(
        Pass::kForward, *forward_,
        {{DNNL_ARG_SRC, source_}, {DNNL_ARG_DST, output}, {DNNL_ARG_WORKSPACE, workspace_}});
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory::desc desc = source_.get_desc();
    const memory read = program.in_format(Pass::kBackward, difference, desc);
    memory result = program.make(desc);
    const auto backward = describe::lrn_backward(program.engine(), *forward_, desc, lrn_);
    program.append<Backward>(Pass::kBackward, backward,
                             {{DNNL_ARG_SRC, source_},
                              {DNNL_ARG_DIFF_DST, read},
                              {DNNL_ARG_WORKSPACE, workspace_},
                              {DNNL_ARG_DIFF_SRC, result}});
    return {result};
  }

 private:
  const LocalResponse lrn_;
  memory source_;
  memory workspace_;
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Lrn>, .by_shape = true};

}  // namespace paceline::layers::lrn
