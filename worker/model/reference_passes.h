// The two passes of the reference back end over layers [stage.first, stage.last) of a network, a mini-batch at a time:
// what a back end of a whole network and that of a stage have in common. Private to reference*.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/network/stages.h"
#include "worker/model/layers/reference_layer.h"

namespace paceline {

class ReferencePasses {
 public:
  // By value (network.h); empty until a layer that reads it has been.
  using Differences = std::vector<Values>;

  // `network` outlives it. `keep`: as activations are kept.
  ReferencePasses(const NetworkSpec& network, const StageSpec& stage, void (*keep)(std::span<double>))
      : network_(network), stage_(stage), keep_(keep), values_(network.layers.size() + 1) {
    for (std::size_t i = stage.first; i < stage.last; ++i) {
      layers_.push_back(make_reference_layer(network.layers[i], i));
    }
  }

  // Of the last mini-batch, by number; those that come in are set before forward().
  std::vector<Values>& values() { return values_; }
  const std::vector<Values>& values() const { return values_; }

  void forward(const ReferencePass& pass) {
    for (std::size_t i = stage_.first; i < stage_.last; ++i) {
      const Layer& layer = network_.layers[i];
      values_[i + 1].resize(static_cast<std::size_t>(pass.samples * layer.out.size()));
      layers_[i - stage_.first]->forward(pass, inputs_of(layer), values_[i + 1]);
    }
  }

  // Takes `differences`, of the values that go on or of the logits, back through the layers, to those of the values
  // that come in, and adds the parameters' share to pass.gradient. Calls `passed` with each layer that it has gone
  // through.
  template <typename Passed>
  void backward(const ReferencePass& pass, Differences& differences, const Passed& passed) {
    for (std::size_t i = stage_.last; i-- > stage_.first;) {
      const Layer& layer = network_.layers[i];
      const Values out_difference = std::move(differences[i + 1]);
      if (out_difference.empty()) continue;  // what goes on of it depends on no parameter
      std::vector<Values> of_inputs;
      for (const std::size_t value : layer.inputs) of_inputs.emplace_back(values_[value].size());
      layers_[i - stage_.first]->backward(pass, inputs_of(layer), values_[i + 1], out_difference, of_inputs);
      for (std::size_t k = 0; k < of_inputs.size(); ++k) {
        keep_(of_inputs[k]);
        Values& sum = differences[layer.inputs[k]];
        if (sum.empty()) {
          sum = std::move(of_inputs[k]);
        } else {
          std::transform(sum.begin(), sum.end(), of_inputs[k].begin(), sum.begin(), std::plus<>());
          keep_(sum);
        }
      }
      passed(layer);
    }
  }

 private:
  std::vector<const Values*> inputs_of(const Layer& layer) const {
    std::vector<const Values*> inputs;
    for (const std::size_t value : layer.inputs) inputs.push_back(&values_[value]);
    return inputs;
  }

  const NetworkSpec& network_;
  const StageSpec stage_;
  void (*keep_)(std::span<double>);
  std::vector<std::unique_ptr<ReferenceLayer>> layers_;  // of the stage
  std::vector<Values> values_;
};

}  // namespace paceline
