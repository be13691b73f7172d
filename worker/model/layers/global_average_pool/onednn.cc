#include <optional>

#include "worker/model/layers/onednn_layer.h"

namespace paceline::layers::global_average_pool {
namespace {

using namespace onednn;
using dnnl::algorithm;
using Forward = dnnl::pooling_forward;
using Backward = dnnl::pooling_backward;

// An average pool whose one window is the image.
class GlobalAveragePool final : public OnednnLayer {
 public:
  GlobalAveragePool(const Layer& layer, std::int64_t samples)
      : window_{.strides = {1, 1},
                .kernel = {layer.in.height, layer.in.width},
                .before = {0, 0},
                .after = {0, 0}},
        out_(dims_of(samples, layer.out)) {}

  memory forward(Program& program, const Surroundings& around) override {
    const memory& source = around.sources[0];
    source_ = source.get_desc();
    forward_ = describe::pool(program.engine(), algorithm::pooling_avg_exclude_padding, source_,
                              any(out_, type_of(source)), window_);
    const memory output = program.make(forward_->dst_desc());
    program.append<Forward>(Pass::kForward, *forward_, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output}});
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>&) override {
    const memory read = program.in_format(Pass::kBackward, difference, forward_->dst_desc());
    memory result = program.make(source_);
    const auto backward =
        describe::pool_backward(program.engine(), *forward_, algorithm::pooling_avg_exclude_padding, source_,
                                read.get_desc(), window_);
    program.append<Backward>(Pass::kBackward, backward,
                             {{DNNL_ARG_DIFF_DST, read}, {DNNL_ARG_DIFF_SRC, result}});
    return {result};
  }

 private:
  const Window window_;
  const Dims out_;
  memory::desc source_;
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<GlobalAveragePool>, .narrow = true, .by_shape = true};

}  // namespace paceline::layers::global_average_pool
