#include "common/caffe/mean_file.h"

#include <fstream>
#include <numeric>

#include "common/caffe/net.h"
#include "common/caffe/net_of.h"

namespace paceline::caffe {

std::vector<double> MeanImage::of_channels() const {
  const std::int64_t plane = shape.height * shape.width;
  std::vector<double> means;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const auto first = values.begin() + c * plane;
    means.push_back(std::accumulate(first, first + plane, 0.0) / static_cast<double>(plane));
  }
  return means;
}

Result<MeanImage> read_mean_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) return not_found(path + ": cannot be read, expected a mean file (binaryproto)");
  BlobProto blob;
  if (!blob.ParseFromIstream(&stream)) {
    return data_loss(path + ": cut, or no mean file, expected a binary BlobProto");
  }
  std::vector<std::int64_t> dims = dims_of(blob);
  while (dims.size() > 3 && dims.front() == 1) dims.erase(dims.begin());
  if (dims.size() != 3) {
    return data_loss(path + ": " + std::to_string(dims.size()) +
                     " dimensions, expected channels, height and width");
  }
  auto shape = input_shape(dims[0], dims[1], dims[2]);
  if (!shape.is_ok()) return data_loss(path + ": " + shape.status().message());
  MeanImage image{*shape, numbers_of(blob)};
  if (std::ssize(image.values) == image.shape.size()) return image;
  return data_loss(path + ": " + std::to_string(image.values.size()) + " numbers, expected " +
                   std::to_string(image.shape.size()));
}

}  // namespace paceline::caffe
