// A loss of loss_rows.h as a layer of the oneDNN back end: a loop between the primitives, over row-major values. Rows
// after the mini-batch's samples, of a program that was built for more, give no loss and no difference.
#pragma once

#include <cstring>

#include "worker/model/layers/loss_rows.h"
#include "worker/model/layers/onednn_layer.h"

namespace paceline::onednn {

template <typename Loss>
class OnednnLoss final : public OnednnLayer {
 public:
  OnednnLoss(const Layer& layer, std::int64_t samples) : layer_(layer), samples_(samples) {}

  memory forward(Program& program, const Surroundings& around) override {
    current_ = around.current;
    for (const memory& source : around.sources) {
      const memory::desc rows = plain(dims_of(source.get_desc()));
      sources_.push_back(program.in_format(Pass::kForward, source, rows));
    }
    memory output = program.make(plain({samples_, 1, 1, 1}));
    program.append_loop(Pass::kForward, {sources_, {&output, 1}}, [this, output] {
      const Inputs inputs = inputs_now();
      const LossRows<float> rows = rows_of(inputs);
      const std::span<float> losses(floats_of(output), static_cast<std::size_t>(samples_));
      std::fill(losses.begin(), losses.end(), 0.0F);
      Loss::losses(rows, losses);
      if (layer_.loss.counts_hits) current_->hits += Loss::hits(rows);
    });
    return output;
  }

  std::vector<memory> backward(Program& program, const memory& difference,
                               const std::vector<bool>& wanted) override {
    std::vector<memory> differences(wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (wanted[k]) differences[k] = program.make(sources_[k].get_desc());
    }
    program.append_loop(
        Pass::kBackward, {sources_, differences, {&difference, 1}}, [this, difference, differences] {
          std::vector<float*> into;
          for (const memory& each : differences) {
            into.push_back(each ? floats_of(each) : nullptr);
            if (each) std::memset(into.back(), 0, each.get_desc().get_size());
          }
          const Inputs inputs = inputs_now();
          const std::span<const float> of_losses(floats_of(difference), static_cast<std::size_t>(samples_));
          Loss::differences(rows_of(inputs), of_losses, std::span<float* const>(into));
        });
    return differences;
  }

 private:
  using Inputs = std::vector<const float*>;
  Inputs inputs_now() const {
    Inputs inputs;
    for (const memory& source : sources_) inputs.push_back(floats_of(source));
    return inputs;
  }
  LossRows<float> rows_of(const Inputs& inputs) const {
    return {layer_, current_->batch->size(), inputs, current_->batch->labels};
  }

  const Layer& layer_;
  const std::int64_t samples_;
  Current* current_ = nullptr;
  std::vector<memory> sources_;
};

}  // namespace paceline::onednn
