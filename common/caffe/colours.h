// Caffe's tools store pictures blue first, as OpenCV reads them; ours are red first. The same network serves both once
// the weights that read red and those that read blue have changed places: docs/CAFFE.md, "Weights".
#pragma once

#include <filesystem>
#include <span>

#include "common/network/network.h"
#include "common/params/init_from.h"
#include "common/status.h"

namespace paceline::caffe {

// Whether the run's pictures have another order than those that Caffe would train it with: it is the same with
// CIFAR-10's files, which Caffe keeps as they are.
inline bool has_other_colours(const RunConfig& config) { return config.data.kind == DataKind::kImages; }

// Exchanges them in `parameters` (network.layout.size() floats), in every convolution and dense layer that reads
// the image, or what layers without weights made of it. Twice is as never. Nothing for images that have not three
// channels. Errors: kInvalidArgument a layer in which the colours stay apart or are mixed with others: a
// convolution in groups, a concatenation.
Status exchange_red_and_blue(const NetworkSpec& network, std::span<float> parameters);

// take_parameters() of a caffemodel that reads blue first. Errors: those of both and of read_weights().
Result<TensorsTaken> take_blue_first(const std::filesystem::path& path, const NetworkSpec& network,
                                     std::span<float> parameters);
// The same in the order of colours that the run's pictures have. `layout`: of its network, or of a task of the user's
// own, whose colours nobody knows.
Result<TensorsTaken> take_weights(const std::filesystem::path& path, const RunConfig& config,
                                  const Layout& layout, std::span<float> parameters);

// What train.init_from names, in `parameters` (layout.size() floats, of `layout`): a caffemodel is one by its name, any
// other file a model of take_parameters(). Errors: those of both.
Result<TensorsTaken> take_init_from(const RunConfig& config, const Layout& layout,
                                    std::span<float> parameters);

}  // namespace paceline::caffe
