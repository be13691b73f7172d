// A Caffe mean file (binaryproto: a BlobProto): what is subtracted from each place of a picture.
#pragma once

#include <string>
#include <vector>

#include "common/network/network.h"
#include "common/status.h"

namespace paceline::caffe {

struct MeanImage {
  Shape shape;
  std::vector<float> values;  // channels x height x width, of 0 to 255

  // Of each channel, over its places.
  std::vector<double> of_channels() const;
};

// Errors, one line: kNotFound no such file; kDataLoss cut, or no mean file, or other numbers than its shape says.
Result<MeanImage> read_mean_file(const std::string& path);

}  // namespace paceline::caffe
