// What a layer kind is, before anything is computed: how many inputs it has, which fields it reads, and what
// shapes and parameters follow. One rule for each kind, in worker/model/layers/<kind>/shape.cc; the
// configuration reads layers by it, and build_network() infers shapes by it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/params/layout.h"
#include "common/status.h"

namespace paceline {

class LayerDraft;

// Of a kind with a window: what stride and padding are where they are not given.
struct WindowDefaults {
  std::int64_t stride;
  std::int64_t padding;
};

struct LayerRule {
  // The name of a layer that has none, with its number among those of the kind after it: "conv1".
  const char* default_name;
  int inputs_min = 1;
  int inputs_max = 1;
  // Which fields of LayerConfig it reads; the others are refused.
  bool has_out = false;
  WindowDefaults (*window)(std::int64_t kernel) = nullptr;  // kernel, stride and padding
  bool has_rate = false;
  bool has_groups = false;  // and dilation
  bool has_window_end = false;
  bool is_lrn = false;          // size, alpha, beta, k, region
  bool has_parameters = false;  // a weight and a bias, and so lr_factor and decay_factor
  bool may_lack_bias = false;
  bool is_norm = false;    // epsilon, momentum, affine, debias; decay_factor is 0 where it is not given
  bool may_share = false;  // weights_of
  bool is_slice = false;   // part, parts, points
  bool has_coefficients = false;
  bool is_loss = false;      // loss_weight; its output is the loss of each sample
  bool counts_hits = false;  // ignore_label, top_k; its first input is the scores
  // Each of its outputs is a sum over all channels of its input, or of its group, times a weight of its own:
  // outputs x channels x what is seen of one.
  bool sums_channels = false;
  bool moves_channels = false;  // a channel of its output is an input's of another number
  bool has_divisor = false;
  bool has_margin = false;  // and legacy
  // Whether it may be the last of a network, whose output is one logit for each class.
  bool gives_logits = false;
  // Checks the configuration's numbers and fills the draft's layer: its numbers, `out`, and its parameters.
  // Errors: kInvalidArgument; "kernel 9, expected 1 to 5" and the like, without the layer's name.
  Status (*infer)(const LayerConfig& config, LayerDraft& draft);
  // Of a kind that is on a GPU: whether this layer of it is; null: every one.
  bool (*is_on_gpu)(const Layer& layer) = nullptr;
};

const LayerRule& layer_rule(LayerKind kind);

// One layer while its rule works on it.
class LayerDraft {
 public:
  // `layer`: with kind, name, inputs, `in` and is_vector (of the first input, true if any of them is one),
  // and `out` as `in`. All outlive the draft.
  LayerDraft(std::vector<Shape> in, Layer& layer, Layout& layout)
      : in_(std::move(in)), layer_(layer), layout_(layout) {}

  // Of every input, in order.
  const std::vector<Shape>& in() const { return in_; }
  Layer& layer() { return layer_; }

  // Kernel, stride and padding of a window that slides over an image, and the height and width that `out`
  // gets. Errors: kInvalidArgument.
  Status slide_window(const LayerConfig& config, const WindowDefaults& defaults);

  // Adds "<name>.weight" with this shape and, where it has one, "<name>.bias" with its first dimension to the
  // layout; of a layer with `weights_of` it finds those of the other. Errors: kInvalidArgument.
  Status add_parameters(const LayerConfig& config, std::vector<std::int64_t> weight_shape,
                        TensorRole weight_role = TensorRole::kWeight);

  // Of a loss: its output is one number, and its weight is taken. Errors: kInvalidArgument.
  Status become_loss(const LayerConfig& config);

  // Whether all inputs have one shape. Errors: kInvalidArgument, with the first that has another.
  Status check_one_shape() const;
  // Whether there are two of one shape, or one of one number, which is compared with the label. Errors: as above.
  Status check_compared() const;

  // Adds "<name>.weight", "<name>.bias" (both if affine), "<name>.running_mean" and "<name>.running_var", one number
  // a channel, to the layout, which is what PyTorch calls them; and "<name>.running_weight" if they are debiased.
  // Errors: kInvalidArgument.
  Status add_norm(const LayerConfig& config);

 private:
  Result<std::int64_t> windows(WindowEnd end, std::int64_t room, std::int64_t size) const;
  Status share_parameters(const LayerConfig& config, const std::vector<std::int64_t>& weight_shape);
  Result<ParameterRange> shared_tensor(const std::string& name, const std::vector<std::int64_t>& shape) const;
  Result<ParameterRange> add_tensor(const std::string& name, std::vector<std::int64_t> shape,
                                    const TensorTraits& traits);

  std::vector<Shape> in_;
  Layer& layer_;
  Layout& layout_;
};

// OK where low <= value <= high; else "<field> <value>, expected <low> to <high>".
Status check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high);

inline constexpr std::int64_t kLayerOutMax = 1 << 16;  // channels or units of one layer

}  // namespace paceline
