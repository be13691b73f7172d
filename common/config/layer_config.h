// A layer of a network, as configured (docs/NETWORKS.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/network/layer_kinds.h"

namespace paceline {

// How far a window goes: kFloor: no further than the padded input; kCeil: it may hang over (Caffe).
enum class WindowEnd { kFloor, kCeil };
// What an LRN adds up: neighbouring channels at one place, or a square within one channel.
enum class LrnRegion { kAcross, kWithin };

// What a loss's sum over a mini-batch is divided by: samples whose label counts; samples; or, of a loss of each
// element, elements.
enum class LossDivisor { kValid, kSamples, kElements };

// What a tensor begins with. kUsual: weights uniform in +-1 / sqrt(inputs), biases 0. The others are Caffe's
// fillers (include/caffe/filler.hpp): fan_in is a weight's size over its first dimension.
enum class FillerKind { kUsual, kConstant, kUniform, kGaussian, kXavier, kMsra };
enum class FillerNorm { kFanIn, kFanOut, kAverage };  // xavier, msra: which number of inputs
struct FillerConfig {
  FillerKind kind = FillerKind::kUsual;
  double value = 0.0;       // constant
  double low = 0.0;         // uniform, [low, high)
  double high = 1.0;        // uniform
  double mean = 0.0;        // gaussian
  double std = 1.0;         // gaussian: standard deviation
  std::int64_t sparse = 0;  // gaussian: so many of an output's inputs are not 0; 0: all
  FillerNorm norm = FillerNorm::kFanIn;
  bool operator==(const FillerConfig&) const = default;
};

// One layer of a network given in YAML; fields that a kind does not use are refused when given.
struct LayerConfig {
  LayerKind kind{};
  std::int64_t out = 0;                    // conv: output channels; dense: units
  std::int64_t kernel = 0;                 // conv, pool: square, pixels
  std::int64_t stride = 0;                 // conv: default 1; pool: default kernel
  std::int64_t padding = -1;               // conv: default (kernel - 1) / 2 ("same"); pool: default 0
  double rate = 0.0;                       // dropout: probability of zeroing, [0, 1)
  std::string name{};                      // empty: the kind's, with a number (common/network/layer_rule.h)
  std::vector<std::string> from{};         // the layers that it reads; empty: the one before
  double lr_factor = 1.0;                  // conv, dense: times the learning rate; 0: it is not trained
  double decay_factor = 1.0;               // conv, dense: times the weight decay
  std::optional<double> bias_lr_factor{};  // the same of the bias alone; none: as the weight
  std::optional<double> bias_decay_factor{};  // likewise
  FillerConfig weight_init{};                 // conv, dense
  FillerConfig bias_init{};                   // conv, dense
  std::int64_t groups = 1;                    // conv: each sees its share of the channels alone
  std::int64_t dilation = 1;                  // conv: the distance of a kernel's elements, pixels
  WindowEnd window_end = WindowEnd::kFloor;   // pool, average_pool
  std::int64_t size = 5;                      // lrn: channels, or the square's side; odd
  double alpha = 1.0;                         // lrn
  double beta = 0.75;                         // lrn
  double k = 1.0;                             // lrn across channels
  LrnRegion region = LrnRegion::kAcross;      // lrn
  bool bias = true;                           // conv: has one
  double epsilon = 1e-5;                      // batch_norm: added to the variance
  double momentum = 0.1;  // batch_norm: the part of the way that running statistics take to new ones
  std::string
      weights_of{};    // conv, dense, scale: a layer before it, whose weight and bias it has; empty: its own
  bool affine = true;  // batch_norm: has a scale and a shift
  bool debias =
      false;  // batch_norm: running statistics begin at nothing and are divided by their weight so far
  std::int64_t part = 0;   // slice: which one, from 0 ...
  std::int64_t parts = 0;  // ... of so many; 0: as `points` say
  std::vector<std::int64_t>
      points{};  // slice: the channels at which parts begin, from the second on; empty: equal ones
  std::vector<double> coefficients{};  // add: what each input is multiplied by; empty: 1
  // Of losses.
  double loss_weight = 1.0;
  std::optional<std::int64_t> ignore_label{};   // softmax_loss: samples with it do not count
  LossDivisor divisor = LossDivisor::kSamples;  // softmax_loss, sigmoid_loss
  std::int64_t top_k = 1;                       // softmax_loss: a hit is a label among so many largest
  double margin = 1.0;                          // contrastive_loss
  bool legacy = false;                          // contrastive_loss: margin - d^2 in place of (margin - d)^2
  bool operator==(const LayerConfig&) const = default;
};

}  // namespace paceline
