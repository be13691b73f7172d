#include "worker/model/layers/onednn_curve.h"

namespace paceline::layers::tanh {
namespace {

std::unique_ptr<onednn::OnednnLayer> make(const Layer&, std::size_t, std::int64_t) {
  return std::make_unique<onednn::Curve>(dnnl::algorithm::eltwise_tanh_use_dst_for_bwd);
}

}  // namespace

extern const onednn::OnednnKind kOnednn{.make = make};

}  // namespace paceline::layers::tanh
