#include "worker/pipeline/layer_times.h"

#include <algorithm>
#include <limits>

#include "common/network/stages.h"
#include "common/random.h"
#include "common/ticks.h"
#include "worker/model/stage_backend.h"

namespace paceline {
namespace {

constexpr int kPasses = 5;

std::vector<float> noise(std::int64_t floats, std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest);
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (float& value : values) value = random.next_float() - 0.5F;
  return values;
}

// One layer, as if it were a stage.
class TimedLayer {
 public:
  TimedLayer(const NetworkSpec& network, const StageSpec& stage, std::int64_t samples)
      : parameters_(noise(stage.parameters.size(), 1)),
        in_(noise(samples * floats_of(network, stage.inputs), 2)),
        out_(static_cast<std::size_t>(samples * floats_of(network, stage.outputs))),
        back_in_(noise(samples * floats_of(network, only_trained(network, stage.outputs)), 3)),
        back_out_(static_cast<std::size_t>(
            stage.first == 0 ? 0 : samples * floats_of(network, only_trained(network, stage.inputs)))),
        gradient_(parameters_.size()),
        labels_(static_cast<std::size_t>(samples)),
        keys_(static_cast<std::size_t>(samples)) {
    pass_.parameters = parameters_;
    pass_.batch.labels = labels_;
    pass_.batch.sample_ids = keys_;
    pass_.batch.epochs = keys_;
    pass_.in = in_;
    if (stage.first == 0) pass_.batch.images = in_;
  }

  Result<schedule::StageTimes> time(StageBackend& backend, bool is_last) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    schedule::StageTimes shortest{kNever, kNever};
    for (int i = 0; i < kPasses; ++i) {
      const Ticks began = steady_now();
      PACELINE_RETURN_IF_ERROR(backend.forward(pass_, out_));
      if (is_last) PACELINE_RETURN_IF_ERROR(backend.loss(pass_.batch, pass_.batch.size()).status());
      const Ticks turned = steady_now();
      PACELINE_RETURN_IF_ERROR(backend.backward(pass_, back_in_, back_out_, gradient_));
      shortest.forward = std::min(shortest.forward, to_seconds(turned - began));
      shortest.backward = std::min(shortest.backward, to_seconds(steady_now() - turned));
    }
    return shortest;
  }

 private:
  std::vector<float> parameters_;
  std::vector<float> in_;
  std::vector<float> out_;
  std::vector<float> back_in_;
  std::vector<float> back_out_;
  std::vector<float> gradient_;
  std::vector<Label> labels_;
  std::vector<std::int64_t> keys_;
  StagePass pass_;
};

}  // namespace

Result<std::vector<schedule::StageTimes>> layer_times(Backend backend, const NetworkSpec& network,
                                                      std::int64_t samples) {
  std::vector<schedule::StageTimes> times;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const StageSpec stage = stage_of_layers(network, i, i + 1);
    PACELINE_ASSIGN_OR_RETURN(auto made, make_stage_backend(backend, network, stage, samples, 1));
    TimedLayer layer(network, stage, samples);
    PACELINE_ASSIGN_OR_RETURN(const schedule::StageTimes took,
                              layer.time(*made, i + 1 == network.layers.size()));
    times.push_back(took);
  }
  return times;
}

}  // namespace paceline
