#include <algorithm>
#include <optional>
#include <utility>

#include "worker/model/layers/onednn_trained.h"
#include "worker/model/onednn_norm_shift.h"

namespace paceline::layers::scale {
namespace {

using namespace onednn;
using dnnl::normalization_flags;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

// The library's batch normalisation with a mean of 0 and a variance of 1 that are given: its loops over channels
// and its sums over places are what is needed. The variance is less than 1 by the epsilon: with an epsilon of 0 the
// channels that fill up a block, whose variance counts as 0, become NaN, and spread from there.
constexpr float kEpsilon = 0x1.0p-10F;

class Scale final : public OnednnLayer {
 public:
  explicit Scale(const Layer& layer) : layer_(layer), channels_{layer.out.channels} {}

  memory forward(Program& program, const Surroundings& around) override {
    source_ = around.sources[0];
    const memory::desc desc = source_.get_desc();
    flags_ = normalization_flags::use_global_stats | normalization_flags::use_scale |
             normalization_flags::use_shift;
    mean_ = constant(program, 0.0F);
    variance_ = constant(program, 1.0F - kEpsilon);
    if (layer_.bias.size == 0) no_shift_ = constant(program, 0.0F);
    forward_ = describe::norm(program.engine(), dnnl::prop_kind::forward_training, desc, kEpsilon, flags_);
    const memory output = program.make(desc);
    program.append<Forward>(Pass::kForward, *forward_,
                            {{DNNL_ARG_SRC, source_},
                             {DNNL_ARG_DST, output},
                             {DNNL_ARG_MEAN, mean_},
                             {DNNL_ARG_VARIANCE, variance_},
                             {DNNL_ARG_SCALE, program.parameter(layer_.weight, channels_)},
                             {DNNL_ARG_SHIFT, shift(program)}});
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    const memory::desc desc = source_.get_desc();
    const memory read = program.in_format(Pass::kBackward, difference, desc);  // written over
    const auto backward = describe::norm_backward(program.engine(), *forward_, desc, kEpsilon, flags_);
    ParameterGradient of_scale(program, layer_.weight, channels_, plain(channels_));
    std::optional<ParameterGradient> of_shift;
    if (layer_.bias.size > 0) of_shift.emplace(program, layer_.bias, channels_, plain(channels_));
    Arguments arguments{
        {DNNL_ARG_SRC, source_},
        {DNNL_ARG_MEAN, mean_},
        {DNNL_ARG_VARIANCE, variance_},
        {DNNL_ARG_SCALE, program.parameter(layer_.weight, channels_)},
        {DNNL_ARG_DIFF_DST, read},
        {DNNL_ARG_DIFF_SRC, read},
        {DNNL_ARG_DIFF_SCALE, of_scale.computed()},
        {DNNL_ARG_DIFF_SHIFT, of_shift ? of_shift->computed() : program.make(plain(channels_))}};
    add_unread_shift(arguments, shift(program));
    program.append<Backward>(Pass::kBackward, backward, std::move(arguments));
    of_scale.append_rest();
    if (of_shift) of_shift->append_rest();
    if (!layer_.shares_weights) program.mark_final(layer_.weight.offset);
    return {wanted[0] ? read : memory()};
  }

 private:
  memory constant(Program& program, float value) const {
    const memory made = program.make_lasting(plain(channels_));
    std::fill_n(floats_of(made), channels_[0], value);
    return made;
  }
  memory shift(Program& program) const {
    return layer_.bias.size > 0 ? program.parameter(layer_.bias, channels_) : no_shift_;
  }

  const Layer& layer_;
  const Dims channels_;
  normalization_flags flags_{};
  memory source_;
  memory mean_;
  memory variance_;
  memory no_shift_;
  std::optional<Forward::primitive_desc> forward_;
};

}  // namespace

extern const OnednnKind kOnednn{.make = made<Scale>, .by_shape = true};

}  // namespace paceline::layers::scale
