#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "worker/model/layers/onednn_layer.h"
#include "worker/model/onednn_norm_shift.h"

namespace paceline::layers::batch_norm {
namespace {

using namespace onednn;
using dnnl::normalization_flags;
using Forward = dnnl::batch_normalization_forward;
using Backward = dnnl::batch_normalization_backward;

// Two primitives: one normalises by the mini-batch's own mean and variance and leaves them for the backward pass,
// one by the running ones. A ReLU after it is done in both, and undone by bits that the first one keeps.
//
// In a group of workers (worker/model/norm_group.h) the first one is two. One measures; what the group makes of it is
// given to one that normalises, as the running ones are. Its backward pass has d(beta), d(gamma) and d(x) without what
// the statistics owe to x; a third one normalises once more, by what the group says of that, and is added.
class BatchNorm final : public OnednnLayer {
 public:
  BatchNorm(const Layer& layer, std::size_t index)
      : layer_(layer), index_(index), channels_{layer.out.channels} {}

  memory forward(Program& program, const Surroundings& around) override {
    source_ = around.sources[0];
    flags_ = normalization_flags::use_scale | normalization_flags::use_shift;
    if (around.with_relu) flags_ = flags_ | normalization_flags::fuse_norm_relu;
    const memory::desc desc = source_.get_desc();
    const auto epsilon = static_cast<float>(layer_.epsilon);
    const memory output = program.make(desc);
    mean_ = program.make_lasting(plain(channels_));
    variance_ = program.make_lasting(plain(channels_));
    group_ = program.norm_group();
    if (group_ != nullptr) {
      measure(program, output);
      flags_ = flags_ | normalization_flags::use_global_stats;
    }
    forward_ = describe::norm(program.engine(), dnnl::prop_kind::forward_training, desc, epsilon, flags_);
    Arguments arguments = common_arguments(program);
    arguments.insert({{DNNL_ARG_DST, output}, {DNNL_ARG_MEAN, mean_}, {DNNL_ARG_VARIANCE, variance_}});
    if (around.with_relu) {
      workspace_ = program.make(forward_->workspace_desc());
      arguments.emplace(DNNL_ARG_WORKSPACE, *workspace_);
    }
    program.append<Forward>(Pass::kForward, *forward_, std::move(arguments), When::kTraining);

    const auto by_running = describe::norm(program.engine(), dnnl::prop_kind::forward_inference, desc,
                                           epsilon, flags_ | normalization_flags::use_global_stats);
    arguments = common_arguments(program);
    arguments.insert({{DNNL_ARG_DST, output},
                      {DNNL_ARG_MEAN, running(program, layer_.running_mean)},
                      {DNNL_ARG_VARIANCE, running(program, layer_.running_variance)}});
    program.append<Forward>(Pass::kForward, by_running, std::move(arguments), When::kEvaluation);
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    write_statistics(program);
    const memory::desc desc = source_.get_desc();
    const memory read = program.in_format(Pass::kBackward, difference, desc);  // written over
    const auto backward = describe::norm_backward(program.engine(), *forward_, desc,
                                                  static_cast<float>(layer_.epsilon), flags_);
    Arguments arguments{{DNNL_ARG_SRC, source_},
                        {DNNL_ARG_MEAN, mean_},
                        {DNNL_ARG_VARIANCE, variance_},
                        {DNNL_ARG_DIFF_DST, read},
                        {DNNL_ARG_DIFF_SRC, read}};
    const memory gamma = gradient(program, layer_.weight);
    const memory beta = gradient(program, layer_.bias);
    arguments.insert(
        {{DNNL_ARG_SCALE, scale(program)}, {DNNL_ARG_DIFF_SCALE, gamma}, {DNNL_ARG_DIFF_SHIFT, beta}});
    add_unread_shift(arguments, shift(program));
    if (workspace_) arguments.emplace(DNNL_ARG_WORKSPACE, *workspace_);
    program.append<Backward>(Pass::kBackward, backward, std::move(arguments));
    const memory result = group_ == nullptr ? read : corrected(program, read, beta, gamma);
    program.mark_final(layer_.tensors().offset);
    return {wanted[0] ? result : memory()};
  }

 private:
  Arguments common_arguments(Program& program) {
    return {{DNNL_ARG_SRC, source_}, {DNNL_ARG_SCALE, scale(program)}, {DNNL_ARG_SHIFT, shift(program)}};
  }

  // One that has neither scale nor shift has ones and zeros, and gradients that nobody reads.
  memory scale(Program& program) const {
    return is_affine() ? program.parameter(layer_.weight, channels_) : constant(program, 1.0F);
  }
  memory shift(Program& program) const {
    return is_affine() ? program.parameter(layer_.bias, channels_) : constant(program, 0.0F);
  }
  memory gradient(Program& program, const ParameterRange& range) const {
    return is_affine() ? program.gradient(range, channels_) : program.make(plain(channels_));
  }
  memory constant(Program& program, float value) const {
    const memory made = program.make_lasting(plain(channels_));
    std::fill_n(floats_of(made), channels_[0], value);
    return made;
  }

  // What an evaluation normalises with: the buffer itself, or that divided by its weight.
  memory running(Program& program, const ParameterRange& range) {
    const memory buffer = program.parameter(range, channels_);
    if (layer_.running_weight.size == 0) return buffer;
    const memory weight = program.parameter(layer_.running_weight, {1});
    memory quotient = program.make_lasting(plain(channels_));
    program.append_loop(
        Pass::kForward, {},
        [buffer, weight, quotient] {
          const float sum = *floats_of(weight);
          const auto channels = onednn::dims_of(quotient.get_desc())[0];
          for (memory::dim c = 0; c < channels; ++c) {
            floats_of(quotient)[c] = sum == 0.0F ? 0.0F : floats_of(buffer)[c] / sum;
          }
        },
        When::kEvaluation);
    return quotient;
  }

  std::span<float> of_channels(const memory& each) const {
    return {onednn::floats_of(each), static_cast<std::size_t>(channels_[0])};
  }
  std::int64_t samples() const { return onednn::dims_of(source_.get_desc())[0]; }
  std::int64_t places() const { return layer_.out.height * layer_.out.width; }

  // The mini-batch's mean and variance, and then the group's. What is normalised on the way is written over.
  void measure(Program& program, const memory& output) {
    const auto own = describe::norm(program.engine(), dnnl::prop_kind::forward_training, source_.get_desc(),
                                    static_cast<float>(layer_.epsilon), normalization_flags::none);
    program.append<Forward>(Pass::kForward, own,
                            {{DNNL_ARG_SRC, source_},
                             {DNNL_ARG_DST, output},
                             {DNNL_ARG_MEAN, mean_},
                             {DNNL_ARG_VARIANCE, variance_}},
                            When::kTraining);
    program.append_loop(
        Pass::kForward, {},
        [this] {
          const std::span<float> mean = of_channels(mean_);
          const std::span<float> variance = of_channels(variance_);
          NormPart part{samples(), {mean.begin(), mean.end()}, {variance.begin(), variance.end()}};
          for (float& squares : part.second) squares *= static_cast<float>(samples() * places());
          const NormStatistics all =
              combined(group_->exchange(index_, NormPass::kForward, std::move(part)), places());
          values_ = all.values;
          std::copy(all.mean.begin(), all.mean.end(), mean.begin());
          std::copy(all.variance.begin(), all.variance.end(), variance.begin());
        },
        When::kTraining);
  }

  // d(x), which is `read` without it: the part that the statistics owe to x, times -gamma / deviation. In float32.
  memory corrected(Program& program, const memory& read, const memory& beta, const memory& gamma) {
    const memory by_z = program.make_lasting(plain(channels_));
    const memory by_one = program.make_lasting(plain(channels_));
    const memory times_gamma = scale(program);
    program.append_loop(
        Pass::kBackward, {{&beta, 1}, {&gamma, 1}},
        [=, this] {
          const std::span<float> first = of_channels(beta);
          const std::span<float> second = of_channels(gamma);
          const NormPart part{samples(), {first.begin(), first.end()}, {second.begin(), second.end()}};
          const NormCorrection owed =
              correction_of(group_->exchange(index_, NormPass::kBackward, part), samples(), places());
          for (std::size_t c = 0; c < first.size(); ++c) {
            const double times =
                -of_channels(times_gamma)[c] / std::sqrt(double{of_channels(variance_)[c]} + layer_.epsilon);
            of_channels(by_one)[c] = static_cast<float>(times * owed.first[c]);
            of_channels(by_z)[c] = static_cast<float>(times * owed.second[c]);
          }
        },
        When::kAlways);
    const auto flags = normalization_flags::use_global_stats | normalization_flags::use_scale |
                       normalization_flags::use_shift;
    const memory::desc desc =
        onednn::type_of(source_) == Type::f32 ? source_.get_desc() : widened(source_.get_desc());
    const memory source = program.in_format(Pass::kBackward, source_, desc);
    const auto normalise = describe::norm(program.engine(), dnnl::prop_kind::forward_inference, desc,
                                          static_cast<float>(layer_.epsilon), flags);
    const memory owed = program.make(desc);
    program.append<Forward>(Pass::kBackward, normalise,
                            {{DNNL_ARG_SRC, source},
                             {DNNL_ARG_DST, owed},
                             {DNNL_ARG_MEAN, mean_},
                             {DNNL_ARG_VARIANCE, variance_},
                             {DNNL_ARG_SCALE, by_z},
                             {DNNL_ARG_SHIFT, by_one}});
    const memory whole = program.in_format(Pass::kBackward, read, desc);
    program.append_sum(Pass::kBackward, whole, owed);
    return whole;
  }

  // To where the buffers are in the gradient; the variance without its bias.
  void write_statistics(Program& program) const {
    if (layer_.running_weight.size > 0) {
      const memory weight = program.gradient(layer_.running_weight, {1});
      program.append_loop(Pass::kBackward, {}, [weight] { *floats_of(weight) = 1.0F; });
    }
    if (group_ != nullptr) return write_group_statistics(program);
    program.append_reorder(Pass::kBackward, mean_, program.gradient(layer_.running_mean, channels_));
    const Dims in = onednn::dims_of(source_.get_desc());
    const auto values = static_cast<float>(in[0] * in[2] * in[3]);
    const auto scale = describe::eltwise(program.engine(), dnnl::algorithm::eltwise_linear,
                                         variance_.get_desc(), values / (values - 1.0F));
    program.append<dnnl::eltwise_forward>(
        Pass::kBackward, scale,
        {{DNNL_ARG_SRC, variance_}, {DNNL_ARG_DST, program.gradient(layer_.running_variance, channels_)}});
  }

  void write_group_statistics(Program& program) const {
    const memory mean = program.gradient(layer_.running_mean, channels_);
    const memory variance = program.gradient(layer_.running_variance, channels_);
    program.append_loop(
        Pass::kBackward, {},
        [=, this] {
          const auto values = static_cast<float>(values_);
          std::ranges::copy(of_channels(mean_), of_channels(mean).begin());
          std::ranges::transform(of_channels(variance_), of_channels(variance).begin(),
                                 [&](float biased) { return biased * (values / (values - 1.0F)); });
        },
        When::kAlways);
  }

  bool is_affine() const { return layer_.weight.size > 0; }

  const Layer& layer_;
  const std::size_t index_;
  const Dims channels_;
  NormGroup* group_ = nullptr;
  std::int64_t values_ = 0;  // of a channel, in the group
  normalization_flags flags_{};
  memory source_;
  memory mean_;
  memory variance_;
  std::optional<memory> workspace_;  // where a ReLU let through
  std::optional<Forward::primitive_desc> forward_;
};

std::unique_ptr<OnednnLayer> make(const Layer& layer, std::size_t index, std::int64_t) {
  return std::make_unique<BatchNorm>(layer, index);
}

}  // namespace

extern const OnednnKind kOnednn{
    .make = make, .narrow = true, .by_shape = true, .does_relu = true, .undoes_relu = true};

}  // namespace paceline::layers::batch_norm
