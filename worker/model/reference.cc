// Plain loops, one sample at a time: forward through the layers, the loss, and back. Compare the gradient
// formulas with any text book; nothing here is done for speed except that the innermost loops run along rows.
#include "worker/model/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "worker/model/dropout.h"
#include "worker/model/loss.h"

namespace paceline {
namespace {

using Values = std::vector<double>;

// By way of float, as a back end in bfloat16 comes to it. NaN and infinity stay.
double nearest_bfloat16(double value) {
  const auto single = static_cast<float>(value);
  if (!std::isfinite(single)) return single;
  const auto bits = std::bit_cast<std::uint32_t>(single);
  const std::uint32_t up = 0x7FFF + (bits >> 16 & 1);  // ties to even
  return std::bit_cast<float>((bits + up) & 0xFFFF0000U);
}

// The output columns x (or rows) for which x * stride + shift is inside [0, size): [begin, end).
struct Inside {
  std::int64_t begin;
  std::int64_t end;
  Inside(std::int64_t shift, std::int64_t stride, std::int64_t size, std::int64_t out)
      : begin(shift >= 0 ? 0 : (-shift + stride - 1) / stride),
        end(shift >= size ? 0 : std::min(out, (size - 1 - shift) / stride + 1)) {}
};

// Calls row(weight index, output offset, input offset, count) for each run of outputs along a row that one
// weight takes part in; the input advances by `stride`. Forward and both backward passes of a convolution are
// this loop.
template <typename Row>
void for_each_conv_row(const Layer& layer, Row row) {
  const std::int64_t k = layer.kernel;
  std::int64_t weight = 0;
  for (std::int64_t o = 0; o < layer.out.channels; ++o) {
    for (std::int64_t c = 0; c < layer.in.channels; ++c) {
      for (std::int64_t ky = 0; ky < k; ++ky) {
        const Inside ys(ky - layer.padding, layer.stride, layer.in.height, layer.out.height);
        for (std::int64_t kx = 0; kx < k; ++kx, ++weight) {
          const Inside xs(kx - layer.padding, layer.stride, layer.in.width, layer.out.width);
          for (std::int64_t y = ys.begin; y < ys.end; ++y) {
            const std::int64_t in_y = y * layer.stride + ky - layer.padding;
            const std::int64_t in_x = xs.begin * layer.stride + kx - layer.padding;
            row(weight, (o * layer.out.height + y) * layer.out.width + xs.begin,
                (c * layer.in.height + in_y) * layer.in.width + in_x,
                std::max<std::int64_t>(0, xs.end - xs.begin));
          }
        }
      }
    }
  }
}

class ReferenceBackend : public NetworkBackend {
 public:
  ReferenceBackend(NetworkSpec network, std::int64_t batch_size, std::uint64_t seed, Activations activations)
      : network_(std::move(network)),
        batch_size_(batch_size),
        seed_(seed),
        activations_(activations),
        parameters_(network_.layout.size()),
        gradient_(network_.layout.size()),
        values_(network_.layers.size() + 1),
        masks_(network_.layers.size()),
        argmax_(network_.layers.size()) {
    values_[0].resize(network_.input.size());
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const Layer& layer = network_.layers[i];
      values_[i + 1].resize(layer.out.size());
      if (layer.kind == LayerKind::kDropout) masks_[i].resize(layer.out.size());
      if (layer.kind == LayerKind::kPool) argmax_[i].resize(layer.out.size());
    }
  }

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, keys_needed()));
    PACELINE_ASSERT(gradient.size() == gradient_.size(), std::to_string(gradient.size()));
    set_parameters(parameters);
    std::fill(gradient_.begin(), gradient_.end(), 0.0);
    Metric total;
    Values difference(network_.classes);
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      forward(batch, n, Mode::kTraining);
      add(total, softmax_cross_entropy<double>(values_.back(), batch.labels.subspan(n, 1), network_.classes,
                                               difference));
      // The loss of one sample has weight 1; its share of the mean is 1 / N.
      for (double& d : difference) d /= static_cast<double>(batch.size());
      keep(difference);
      // A layer's gradient is final once the last sample has added to it.
      const bool last = n + 1 == batch.size();
      backward(difference, [&](const Layer& layer) {
        if (!last || layer.weight.size == 0) return;
        round_to(gradient, layer.weight);
        round_to(gradient, layer.bias);
        final_from(layer.weight.offset);
      });
    }
    return total;
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    set_parameters(parameters);
    Metric total;
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      forward(batch, n, Mode::kEvaluation);
      add(total,
          softmax_cross_entropy<double>(values_.back(), batch.labels.subspan(n, 1), network_.classes, {}));
    }
    return total;
  }

 private:
  enum class Mode { kTraining, kEvaluation };

  DropoutKeys keys_needed() const {
    const bool drops = std::any_of(network_.layers.begin(), network_.layers.end(),
                                   [](const Layer& layer) { return layer.kind == LayerKind::kDropout; });
    return drops ? DropoutKeys::kRequired : DropoutKeys::kIgnored;
  }

  static void add(Metric& total, const Metric& one) {
    total.loss_sum += one.loss_sum;
    total.correct += one.correct;
    total.samples += one.samples;
  }

  void set_parameters(std::span<const float> parameters) {
    PACELINE_ASSERT(parameters.size() == parameters_.size(), std::to_string(parameters.size()));
    std::copy(parameters.begin(), parameters.end(), parameters_.begin());
    for (const Layer& layer : network_.layers) {
      keep(std::span(parameters_).subspan(layer.weight.offset, layer.weight.size));
    }
  }

  // As activations are kept.
  void keep(std::span<double> values) const {
    if (activations_ == Activations::kDouble) return;
    for (double& value : values) value = nearest_bfloat16(value);
  }

  void forward(const Batch& batch, std::int64_t n, Mode mode) {
    const auto image = batch.images.subspan(n * network_.input.size(), network_.input.size());
    std::copy(image.begin(), image.end(), values_[0].begin());
    keep(values_[0]);
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const Layer& layer = network_.layers[i];
      const Values& in = values_[i];
      Values& out = values_[i + 1];
      switch (layer.kind) {
        case LayerKind::kConv:
          conv_forward(layer, in, out);
          add_bias(layer, out);
          break;
        case LayerKind::kPool:
          pool_forward(layer, in, out, argmax_[i]);
          break;
        case LayerKind::kDense:
          dense_forward(layer, in, out);
          add_bias(layer, out);
          break;
        case LayerKind::kRelu:
          std::transform(in.begin(), in.end(), out.begin(), [](double x) { return x < 0.0 ? 0.0 : x; });
          break;
        case LayerKind::kDropout:
          if (mode == Mode::kTraining) {
            const Batch sample{
                {}, batch.labels.subspan(n, 1), batch.sample_ids.subspan(n, 1), batch.epochs.subspan(n, 1)};
            fill_dropout_mask(network_, i, seed_, sample, masks_[i]);
            std::transform(in.begin(), in.end(), masks_[i].begin(), out.begin(), std::multiplies<>());
            keep(out);
          } else {
            out = in;
          }
          break;
        case LayerKind::kFlatten:
          out = in;
          break;
      }
    }
  }

  void round_to(std::span<float> gradient, const ParameterRange& range) const {
    std::transform(gradient_.begin() + range.offset, gradient_.begin() + range.offset + range.size,
                   gradient.begin() + range.offset, [](double value) { return static_cast<float>(value); });
  }

  // Takes d(loss)/d(logits) back through the layers and adds the parameters' share to gradient_. Calls
  // `passed` with each layer that it has gone through.
  template <typename Passed>
  void backward(Values out_difference, const Passed& passed) {
    for (std::size_t i = network_.layers.size(); i-- > 0;) {
      const Layer& layer = network_.layers[i];
      const Values& in = values_[i];
      Values in_difference(in.size(), 0.0);
      switch (layer.kind) {
        case LayerKind::kConv:
          conv_backward(layer, in, out_difference, in_difference);
          break;
        case LayerKind::kPool:
          for (std::size_t j = 0; j < out_difference.size(); ++j)
            in_difference[argmax_[i][j]] += out_difference[j];
          break;
        case LayerKind::kDense:
          dense_backward(layer, in, out_difference, in_difference);
          break;
        case LayerKind::kRelu:
          for (std::size_t j = 0; j < in.size(); ++j)
            in_difference[j] = in[j] > 0.0 ? out_difference[j] : 0.0;
          break;
        case LayerKind::kDropout:
          for (std::size_t j = 0; j < in.size(); ++j) in_difference[j] = out_difference[j] * masks_[i][j];
          break;
        case LayerKind::kFlatten:
          in_difference = out_difference;
          break;
      }
      keep(in_difference);
      passed(layer);
      out_difference = std::move(in_difference);
    }
  }

  // To a trained layer's products, that of their channel.
  void add_bias(const Layer& layer, Values& out) const {
    keep(out);
    const std::int64_t plane = layer.out.height * layer.out.width;
    for (std::int64_t j = 0; j < layer.out.size(); ++j) out[j] += parameters_[layer.bias.offset + j / plane];
    keep(out);
  }

  // out[o,y,x] = sum over c,ky,kx of weight[o,c,ky,kx] * in[c, y*s + ky - p, x*s + kx - p]
  void conv_forward(const Layer& layer, const Values& in, Values& out) const {
    std::fill(out.begin(), out.end(), 0.0);
    for_each_conv_row(layer, [&](std::int64_t w, std::int64_t to, std::int64_t from, std::int64_t count) {
      const double weight = parameters_[layer.weight.offset + w];
      for (std::int64_t x = 0; x < count; ++x) out[to + x] += weight * in[from + x * layer.stride];
    });
  }

  void conv_backward(const Layer& layer, const Values& in, const Values& out_difference,
                     Values& in_difference) {
    const std::int64_t plane = layer.out.height * layer.out.width;
    for (std::int64_t j = 0; j < layer.out.size(); ++j)
      gradient_[layer.bias.offset + j / plane] += out_difference[j];
    for_each_conv_row(layer, [&](std::int64_t w, std::int64_t to, std::int64_t from, std::int64_t count) {
      const double weight = parameters_[layer.weight.offset + w];
      double sum = 0.0;
      for (std::int64_t x = 0; x < count; ++x) {
        sum += out_difference[to + x] * in[from + x * layer.stride];
        in_difference[from + x * layer.stride] += out_difference[to + x] * weight;
      }
      gradient_[layer.weight.offset + w] += sum;
    });
  }

  // The largest value of each window, and where it was (the first of equals): there alone the gradient goes
  // back.
  static void pool_forward(const Layer& layer, const Values& in, Values& out,
                           std::vector<std::int64_t>& argmax) {
    std::int64_t j = 0;
    for (std::int64_t c = 0; c < layer.out.channels; ++c) {
      for (std::int64_t y = 0; y < layer.out.height; ++y) {
        for (std::int64_t x = 0; x < layer.out.width; ++x, ++j) {
          const std::int64_t top = y * layer.stride - layer.padding;
          const std::int64_t left = x * layer.stride - layer.padding;
          std::int64_t best = -1;
          for (std::int64_t in_y = std::max<std::int64_t>(0, top);
               in_y < std::min(layer.in.height, top + layer.kernel); ++in_y) {
            for (std::int64_t in_x = std::max<std::int64_t>(0, left);
                 in_x < std::min(layer.in.width, left + layer.kernel); ++in_x) {
              const std::int64_t at = (c * layer.in.height + in_y) * layer.in.width + in_x;
              if (best < 0 || in[at] > in[best]) best = at;
            }
          }
          argmax[j] = best;
          out[j] = in[best];
        }
      }
    }
  }

  // out[o] = sum over i of weight[o,i] * in[i]
  void dense_forward(const Layer& layer, const Values& in, Values& out) const {
    const double* weight = parameters_.data() + layer.weight.offset;
    for (std::int64_t o = 0; o < layer.out.size(); ++o, weight += in.size()) {
      double sum = 0.0;
      for (std::size_t i = 0; i < in.size(); ++i) sum += weight[i] * in[i];
      out[o] = sum;
    }
  }

  void dense_backward(const Layer& layer, const Values& in, const Values& out_difference,
                      Values& in_difference) {
    const double* weight = parameters_.data() + layer.weight.offset;
    double* weight_gradient = gradient_.data() + layer.weight.offset;
    for (std::int64_t o = 0; o < layer.out.size(); ++o, weight += in.size(), weight_gradient += in.size()) {
      const double d = out_difference[o];
      gradient_[layer.bias.offset + o] += d;
      for (std::size_t i = 0; i < in.size(); ++i) {
        weight_gradient[i] += d * in[i];
        in_difference[i] += d * weight[i];
      }
    }
  }

  NetworkSpec network_;
  std::int64_t batch_size_;
  std::uint64_t seed_;
  Activations activations_;
  Values parameters_;
  Values gradient_;
  std::vector<Values> values_;                     // [0] the image, [i + 1] the output of layer i
  std::vector<std::vector<float>> masks_;          // of the dropout layers
  std::vector<std::vector<std::int64_t>> argmax_;  // of the pool layers
};

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_reference_backend(NetworkSpec network, std::int64_t batch_size,
                                                               std::uint64_t seed, Activations activations) {
  return std::unique_ptr<NetworkBackend>(
      std::make_unique<ReferenceBackend>(std::move(network), batch_size, seed, activations));
}

}  // namespace paceline
