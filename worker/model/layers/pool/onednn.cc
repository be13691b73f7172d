#include <optional>

#include "worker/model/layers/onednn_layer.h"
#include "worker/model/layers/onednn_window.h"

namespace paceline::layers::pool {
namespace {

using namespace onednn;
using dnnl::algorithm;
using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

class MaxPool final : public OnednnLayer {
 public:
  MaxPool(const Layer& layer, std::int64_t samples) : layer_(layer), out_(dims_of(samples, layer.out)) {}

  memory forward(Program& program, const Surroundings& around) override {
    source_ = around.sources[0];
    forward_ = describe::pool(program.engine(), algorithm::pooling_max, source_.get_desc(),
                              any(out_, type_of(source_)), window_of(layer_));
    output_ = program.make(forward_->dst_desc());
    maxima_ = program.make(forward_->workspace_desc());
    program.append<Forward>(
        Pass::kForward, *forward_,
        {{DNNL_ARG_SRC, source_}, {DNNL_ARG_DST, output_}, {DNNL_ARG_WORKSPACE, maxima_}});
    return output_;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory read = program.in_format(Pass::kBackward, difference, output_.get_desc());
    memory result = program.make(source_.get_desc());
    const auto backward = describe::pool_backward(program.engine(), *forward_, algorithm::pooling_max,
                                                  result.get_desc(), read.get_desc(), window_of(layer_));
    program.append<Backward>(
        Pass::kBackward, backward,
        {{DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_WORKSPACE, maxima_}, {DNNL_ARG_DIFF_SRC, result}});
    return {result};
  }

 private:
  const Layer& layer_;
  const Dims out_;
  memory source_;
  memory output_;
  memory maxima_;  // where they were
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<MaxPool>, .narrow = true, .commutes_with_relu = true};

}  // namespace paceline::layers::pool
