// Mini-batches made on the GPU of a training set that is kept there (resident_data.h): what the loader's
// threads do on the CPU, to the last bit (worker/data/batch_maker.h), by the same functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "common/label.h"
#include "worker/data/augmentation.h"

namespace paceline::cuda {

// One pixel of one sample, all its channels; with a sample's first pixel its label, too. Samples that only
// fill the mini-batch up are zeros with label 0.
struct RenderSamples {
  const std::uint8_t* pixels;  // the training set's, as DataSet has them
  const std::uint8_t* labels;
  Normalization normalization;
  BatchOptions options;
  const std::int64_t* epochs;  // of each sample
  const std::int64_t* sample_ids;
  int samples;    // those from here on fill up
  float* images;  // channel by channel, as the loader has them
  Label* batch_labels;

  static constexpr int kSide = static_cast<int>(kImageSide);
  static constexpr int kPlane = static_cast<int>(kPlaneSize);
  static constexpr int kChannels = static_cast<int>(kImageChannels);

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int place = i / kPlane;  // in the mini-batch
    const int pixel = i % kPlane;
    const bool fills_up = place >= samples;
    if (pixel == 0) batch_labels[place] = fills_up ? Label{0} : Label{labels[sample_ids[place]]};
    const int from = fills_up ? -1 : source_of(place, pixel);
    for (int channel = 0; channel < kChannels; ++channel) {
      images[(std::ptrdiff_t{place} * kChannels + channel) * kPlane + pixel] =
          from < 0 ? 0.0F : value_of(sample_ids[place], channel, from);
    }
  }

  // Which pixel of the stored image is seen at `pixel` of the mini-batch's; -1: none.
  PACELINE_HOST_DEVICE int source_of(int place, int pixel) const {
    const Augmentation augmentation = options.augmentation_of(epochs[place], sample_ids[place]);
    const int column = pixel % kSide;
    const int counted = augmentation.flip == Flip::kYes ? kSide - 1 - column : column;
    const int in_row = pixel / kSide + augmentation.down;
    const int in_column = counted + augmentation.right;
    const bool inside = in_row >= 0 && in_row < kSide && in_column >= 0 && in_column < kSide;
    return inside ? in_row * kSide + in_column : -1;
  }
  PACELINE_HOST_DEVICE float value_of(std::int64_t sample, int channel, int from) const {
    const auto c = static_cast<std::size_t>(channel);
    return normalized(pixels[sample * kImageSize + channel * kPlane + from], normalization.mean[c],
                      normalization.scale[c]);
  }
};

}  // namespace paceline::cuda
