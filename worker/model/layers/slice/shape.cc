// Some of its input's channels: one of the parts that it is cut into. Caffe's Slice is one such layer for each top.
#include <algorithm>

#include "common/network/layer_rule.h"

namespace paceline::layers::slice {
namespace {

Status infer(const LayerConfig& config, LayerDraft& draft) {
  Layer& layer = draft.layer();
  const std::int64_t channels = layer.in.channels;
  const std::int64_t parts = config.points.empty() ? config.parts : std::ssize(config.points) + 1;
  if (config.parts != 0 && config.parts != parts) {
    return invalid_argument("parts " + std::to_string(config.parts) + " and " +
                            std::to_string(config.points.size()) +
                            " points, expected one point less than parts");
  }
  PACELINE_RETURN_IF_ERROR(check_range("parts", parts, 1, channels));
  PACELINE_RETURN_IF_ERROR(check_range("part", config.part, 0, parts - 1));
  const auto begin_of = [&](std::int64_t part) {
    if (config.points.empty()) return part * (channels / parts);
    return part == 0 ? 0 : part == parts ? channels : config.points[static_cast<std::size_t>(part - 1)];
  };
  if (config.points.empty() && channels % parts != 0) {
    return invalid_argument("parts " + std::to_string(parts) + " of " + to_string(layer.in) +
                            ", expected a number that divides its channels");
  }
  for (std::int64_t part = 0; part < parts; ++part) {
    if (begin_of(part) < begin_of(part + 1)) continue;
    return invalid_argument("points that are no cuts of " + to_string(layer.in) +
                            ", expected channels that rise, from 1 on and below " + std::to_string(channels));
  }
  layer.first_channel = begin_of(config.part);
  layer.out.channels = begin_of(config.part + 1) - layer.first_channel;
  return Status::ok();
}

}  // namespace

extern const LayerRule kRule{
    .default_name = "slice", .is_slice = true, .moves_channels = true, .gives_logits = true, .infer = infer};

}  // namespace paceline::layers::slice
