// What every back end checks first (backend.h); with no library of any back end in it.
#include <algorithm>
#include <optional>
#include <string>

#include "common/network/layer_rule.h"
#include "worker/model/backend.h"

namespace paceline {

DropoutKeys keys_needed(const NetworkSpec& network) {
  const bool draws = std::any_of(network.layers.begin(), network.layers.end(),
                                 [](const Layer& layer) { return layer.is_random; });
  return draws ? DropoutKeys::kRequired : DropoutKeys::kIgnored;
}

Status check_norms(const NetworkSpec& network, std::int64_t samples) {
  for (const Layer& layer : network.layers) {
    if (!layer.mixes_samples() || samples * layer.in.height * layer.in.width > 1) continue;
    return invalid_argument("mini-batch of " + std::to_string(samples) + " sample: " + layer.name +
                            " normalises over one value, expected at least 2 samples");
  }
  return Status::ok();
}

namespace {

// Whether each is below `classes`, or the one that does not count.
Status check_labels(const Batch& batch, std::int64_t classes, std::optional<std::int64_t> ignored) {
  for (std::size_t n = 0; n < batch.labels.size(); ++n) {
    const auto label = static_cast<std::int64_t>(batch.labels[n]);
    if (label < classes || (ignored && static_cast<Label>(*ignored) == batch.labels[n])) continue;
    return invalid_argument("mini-batch with label " + std::to_string(label) + " at position " +
                            std::to_string(n) + ", expected less than " + std::to_string(classes));
  }
  return Status::ok();
}

// By those who look at them: the logits' loss, or loss layers that have a score for each class.
Status check_labels(const NetworkSpec& network, const Batch& batch) {
  if (!network.has_losses()) return check_labels(batch, network.classes, std::nullopt);
  for (const Layer& layer : network.layers) {
    if (!layer_rule(layer.kind).counts_hits) continue;
    PACELINE_RETURN_IF_ERROR(check_labels(batch, layer.in.size(), layer.loss.ignore_label));
  }
  return Status::ok();
}

}  // namespace

Status check_batch(const NetworkSpec& network, const Batch& batch, std::int64_t max_samples, DropoutKeys keys,
                   std::int64_t samples_kept) {
  const std::int64_t n = batch.size();
  if (n < 1 || n > max_samples) {
    return invalid_argument("mini-batch of " + std::to_string(n) + " samples, expected 1 to " +
                            std::to_string(max_samples));
  }
  const bool is_resident = samples_kept > 0 && batch.images.empty();
  const std::int64_t floats = n * network.input.size();
  if (!is_resident && static_cast<std::int64_t>(batch.images.size()) != floats) {
    return invalid_argument("mini-batch of " + std::to_string(n) + " samples with " +
                            std::to_string(batch.images.size()) + " floats of images, expected " +
                            std::to_string(floats));
  }
  PACELINE_RETURN_IF_ERROR(check_labels(network, batch));
  if ((is_resident || keys == DropoutKeys::kRequired) &&
      (batch.sample_ids.size() != batch.labels.size() || batch.epochs.size() != batch.labels.size())) {
    return invalid_argument("mini-batch of " + std::to_string(n) + " samples with " +
                            std::to_string(batch.sample_ids.size()) + " sample ids and " +
                            std::to_string(batch.epochs.size()) + " epochs, expected as many");
  }
  if (!is_resident) return Status::ok();
  const auto unknown = std::find_if(batch.sample_ids.begin(), batch.sample_ids.end(),
                                    [&](std::int64_t id) { return id < 0 || id >= samples_kept; });
  if (unknown == batch.sample_ids.end()) return Status::ok();
  return invalid_argument("mini-batch with sample " + std::to_string(*unknown) + " at position " +
                          std::to_string(unknown - batch.sample_ids.begin()) + ", expected 0 to " +
                          std::to_string(samples_kept - 1));
}

}  // namespace paceline
