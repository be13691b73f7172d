// The network: layers in topological order, each with the layers that it reads and every shape worked out,
// and where each layer's parameters lie in the flat float32 vector that travels between workers and servers.
// Built once from the configuration and given to a back end (backend.h); nothing here computes.
//
// Worked example, cifar_cnn_small on 3x32x32 (545,098 parameters):
//
//   conv 3x3  -> 32x32x32   conv1.weight 32,3,3,3      conv1.bias 32
//   relu, pool 2 -> 32x16x16
//   conv 3x3  -> 64x16x16   conv2.weight 64,32,3,3     conv2.bias 64
//   relu, pool 2 -> 64x8x8
//   flatten   -> 4096
//   dense     -> 128        fc1.weight 128,4096        fc1.bias 128
//   relu [dropout]
//   dense     -> 10         fc2.weight 10,128          fc2.bias 10
//
// What layers give each other are values, by number: 0 is the image, i + 1 what layers[i] gives. A block that
// adds its input to what it makes of it, with the inputs of each layer:
//
//   layers   0 conv {0}   1 relu {1}   2 conv {2}   3 add {3, 2}   4 relu {4}   ...
//
// The loss is the softmax cross-entropy, averaged over the mini-batch; in training with smoothed labels
// (worker/model/loss.h). A network may have loss layers instead, anywhere: each gives one number for each sample, and
// the loss is the sum of their means, each times its weight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/names.h"
#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

// One sample's activations between two layers: channels x height x width, row-major. A vector of n units is n
// x 1 x 1.
struct Shape {
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  std::int64_t size() const { return channels * height * width; }
  bool operator==(const Shape&) const = default;
};

// "3x32x32".
std::string to_string(const Shape& shape);

// A range of the flat parameter vector, in floats. Empty where a layer has no such parameters.
struct ParameterRange {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};

// Local response normalisation (worker/model/layers/lrn/reference.cc has the formula).
struct LrnConfig {
  LrnRegion region = LrnRegion::kAcross;
  std::int64_t size = 5;
  double alpha = 1.0;
  double beta = 0.75;
  double k = 1.0;
};

// What a loss layer gives is the loss of each sample; the network's loss is the sum of their means times their weights.
struct LossConfig {
  bool is_one = false;
  bool counts_hits = false;  // softmax_loss: its inputs are the scores that accuracy is counted by
  double weight = 1.0;
  std::optional<std::int64_t> ignore_label{};
  LossDivisor divisor = LossDivisor::kSamples;
  std::int64_t top_k = 1;
  double margin = 1.0;
  bool legacy = false;
};

// One layer with its shapes. Fields that a kind does not use keep their defaults.
struct Layer {
  LayerKind kind{};
  std::string name{};                 // of this layer alone; its tensors begin with it
  std::vector<std::size_t> inputs{};  // values, each of a layer in front of it
  Shape in;                           // of the first input
  Shape out;
  bool is_random = false;          // dropout: what it does to a sample depends on the sample's id and epoch
  bool is_vector = false;          // its output is units without a place: no window can slide over it
  std::int64_t kernel = 1;         // conv, pool (max), average_pool: square
  std::int64_t stride = 1;         // of the same
  std::int64_t padding = 0;        // conv (zeros), pool (never the maximum), average_pool (zeros that count)
  std::int64_t groups = 1;         // conv: group g of the outputs sees group g of the inputs alone
  std::int64_t dilation = 1;       // conv: the distance of a kernel's elements
  LrnConfig lrn{};                 // lrn
  double rate = 0.0;               // dropout: probability of zeroing; the rest is scaled by 1 / (1 - rate)
  double epsilon = 0.0;            // batch_norm: added to the variance
  std::int64_t first_channel = 0;  // slice: of its input
  std::vector<double> coefficients{};  // add: of each input; empty: 1
  LossConfig loss{};                   // the losses
  // conv: out, in / groups, kernel, kernel; dense: out, in (in = C*H*W of its input); batch_norm, if it has one, and
  // scale: gamma, out
  ParameterRange weight;
  ParameterRange bias;  // out, or none; batch_norm: beta
  bool shares_weights =
      false;  // both are a layer's in front of it: the gradient is the sum over all that have them
  // batch_norm, out each: buffers (common/params/layout.h), which evaluations normalise with. They lie after the
  // bias. In a gradient's place they are the mini-batch's own, the variance with n / (n - 1) (Bessel).
  ParameterRange running_mean;
  ParameterRange running_variance;
  // One number, or none: the two above are sums of what was measured, each with the same weights, and this is the sum
  // of the weights. 0: nothing was measured, and both count as 0. Its measurement is 1.
  ParameterRange running_weight;
  FillerConfig weight_init{};  // what the two begin with
  FillerConfig bias_init{};

  // Whether what it makes of a sample in training depends on the rest of its mini-batch.
  bool mixes_samples() const { return running_mean.size > 0; }

  // All of its own in the flat vector; nothing where it has another layer's.
  ParameterRange tensors() const {
    if (shares_weights) return {};
    return {weight.size > 0 ? weight.offset : running_mean.offset, weight.size + bias.size + buffers()};
  }
  std::int64_t buffers() const { return running_mean.size + running_variance.size + running_weight.size; }

  // Products that are added up for one sample, of a kind that sums channels (layer_rule.h); else 0.
  std::int64_t multiply_adds() const;
};

// A network whose every layer fits the next. Thread: immutable after construction.
struct NetworkSpec {
  Shape input;
  std::int64_t classes = 0;
  std::vector<Layer>
      layers;     // in the order they are applied; the last gives `classes` logits, or some are losses
  Layout layout;  // conv1.weight, conv1.bias, ..., fc1.weight, fc1.bias, ...
  double label_smoothing = 0.0;

  bool has_losses() const {
    return std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.loss.is_one; });
  }
  // What an optimizer trains, in floats: the layout without its buffers.
  std::int64_t trained() const;
  bool mixes_samples() const {
    return std::any_of(layers.begin(), layers.end(),
                       [](const Layer& layer) { return layer.mixes_samples(); });
  }
  const Shape& shape_of(std::size_t value) const { return value == 0 ? input : layers[value - 1].out; }
  // How many inputs of layers each value is.
  std::vector<int> readers() const;
};

// Instead of a number of classes: as many as the network's last layer gives.
inline constexpr std::int64_t kAnyClasses = 0;

// The network that `train` describes: a ready-made one (ready_made.h), or its own `layers`. A layer reads those
// that its `from` names ("input": the image), without one the layer before it. Errors: kInvalidArgument, also
// for a name that is given twice or that no layer before has, a wrong number of inputs, and a layer that
// nobody reads but a loss; the message begins with the key and a colon (`train.layers[3]: conv: kernel 9 is larger
// ...`), which common/config's check relies on.
Result<NetworkSpec> build_network(const TrainSection& train, Shape input = {3, 32, 32},
                                  std::int64_t classes = 10);

// The same for a run: the data say what goes in and how many classes there are.
Result<NetworkSpec> build_network(const RunConfig& config);

// Fills `parameters` (layout.size() floats), a pure function of seed and tensor. Where the layer says nothing
// else (FillerConfig), weights are uniform in +-1 / sqrt(inputs), a third of the variance that keeps a signal's (LeCun
// et al., "Efficient BackProp", 1998, section 4.6), biases 0. He's variance is six times as large; under stale
// gradients its first steps overshoot.
void initialize_parameters(const NetworkSpec& network, std::uint64_t seed, std::span<float> parameters);

}  // namespace paceline
