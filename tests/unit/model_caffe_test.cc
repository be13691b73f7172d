// The layer kinds with Caffe's semantics, against loops written from Caffe's own definition, finite
// differences and oneDNN. Shapes and numbers: src/caffe/layers/pooling_layer.cpp, lrn_layer.cpp,
// base_conv_layer.cpp.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/model_checks.h"
#include "worker/model/layers/reference_layer.h"

using namespace paceline;

namespace {

LayerConfig ceil_pool(LayerKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0) {
  return {
      .kind = kind, .kernel = kernel, .stride = stride, .padding = padding, .window_end = WindowEnd::kCeil};
}
LayerConfig lrn(LrnRegion region, std::int64_t size, double alpha = 0.7, double k = 1.0) {
  return {.kind = LayerKind::kLrn, .size = size, .alpha = alpha, .beta = 0.75, .k = k, .region = region};
}
LayerConfig grouped(std::int64_t out, std::int64_t kernel, std::int64_t groups, std::int64_t dilation = 1) {
  return {.kind = LayerKind::kConv, .out = out, .kernel = kernel, .groups = groups, .dilation = dilation};
}

// What one layer of the reference makes of `in`.
Values forward(const LayerConfig& config, const Shape& shape, const Values& in,
               const Values& parameters = {}) {
  const NetworkSpec network = build_network(train_with({config}), shape, kAnyClasses).value();
  const Layer& layer = network.layers.front();
  Values out(static_cast<std::size_t>(layer.out.size()));
  const ReferencePass pass{Mode::kEvaluation, 1, {}, 1, parameters, {}, [](std::span<double>) {}};
  const Values* const inputs[] = {&in};
  make_reference_layer(layer, 0)->forward(pass, inputs, out);
  return out;
}

std::int64_t pooled(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  const auto room = static_cast<double>(size + 2 * pad - kernel);
  auto count = static_cast<std::int64_t>(std::ceil(room / static_cast<double>(stride))) + 1;
  if (pad > 0 && (count - 1) * stride >= size + pad) --count;
  return count;
}

struct Window {
  std::int64_t size, kernel, stride, pad;
};

// Of one square plane.
Values average_of_caffe(const Values& in, const Window& w) {
  Values out;
  const std::int64_t count = pooled(w.size, w.kernel, w.stride, w.pad);
  for (std::int64_t ph = 0; ph < count; ++ph) {
    for (std::int64_t pw = 0; pw < count; ++pw) {
      std::int64_t hstart = ph * w.stride - w.pad;
      std::int64_t wstart = pw * w.stride - w.pad;
      std::int64_t hend = std::min(hstart + w.kernel, w.size + w.pad);
      std::int64_t wend = std::min(wstart + w.kernel, w.size + w.pad);
      const auto pool_size = static_cast<double>((hend - hstart) * (wend - wstart));
      hstart = std::max<std::int64_t>(hstart, 0);
      wstart = std::max<std::int64_t>(wstart, 0);
      hend = std::min(hend, w.size);
      wend = std::min(wend, w.size);
      double sum = 0.0;
      for (std::int64_t h = hstart; h < hend; ++h) {
        for (std::int64_t x = wstart; x < wend; ++x) sum += in[static_cast<std::size_t>(h * w.size + x)];
      }
      out.push_back(sum / pool_size);
    }
  }
  return out;
}

const std::vector<std::vector<LayerConfig>>& networks_of_caffe() {
  static const std::vector<std::vector<LayerConfig>> kNetworks = {
      // The CIFAR-10 nets' pools: 12 -> 6, of which the last window hangs over; and in padding.
      {conv(8, 3), ceil_pool(LayerKind::kPool, 3, 2), relu(), conv(6, 3),
       ceil_pool(LayerKind::kAveragePool, 3, 2), dense(10)},
      {conv(5, 3), ceil_pool(LayerKind::kAveragePool, 3, 2, 1), conv(6, 3),
       ceil_pool(LayerKind::kPool, 3, 2, 1), dense(10)},
      {conv(16, 3),
       relu(),
       ceil_pool(LayerKind::kAveragePool, 4, 3, 2),
       {.kind = LayerKind::kAveragePool, .kernel = 2, .stride = 1, .padding = 1},
       dense(10)},
      {conv(8, 3), lrn(LrnRegion::kAcross, 5, 0.7, 2.0), relu(), lrn(LrnRegion::kWithin, 3), dense(10)},
      {conv(8, 3), {.kind = LayerKind::kSigmoid}, pool(2), conv(6, 3), {.kind = LayerKind::kTanh}, dense(10)},
      {conv(8, 3), relu(), grouped(6, 3, 2), grouped(4, 3, 1, 2), grouped(8, 3, 4, 3), dense(10)},
      {dense(12), {.kind = LayerKind::kSigmoid}, dense(12), {.kind = LayerKind::kTanh}, dense(10)},
  };
  return kNetworks;
}

}  // namespace

TEST_CASE("pools_reach_as_far_as_caffes") {
  for (const Window w : {Window{32, 3, 2, 0}, Window{16, 3, 2, 0}, Window{5, 2, 2, 0}, Window{5, 3, 2, 1},
                         Window{6, 3, 2, 1}, Window{7, 4, 3, 2}, Window{4, 2, 2, 1}}) {
    INFO(w.size << " pixels, kernel " << w.kernel << ", stride " << w.stride << ", pad " << w.pad);
    const std::int64_t count = pooled(w.size, w.kernel, w.stride, w.pad);
    const Values in = noise(w.size * w.size, 3);
    const Shape shape{1, w.size, w.size};
    check_close(forward(ceil_pool(LayerKind::kAveragePool, w.kernel, w.stride, w.pad), shape, in),
                average_of_caffe(in, w));
    CHECK(forward(ceil_pool(LayerKind::kPool, w.kernel, w.stride, w.pad), shape, in).size() ==
          static_cast<std::size_t>(count * count));
  }
}

TEST_CASE("an_average_counts_padding_and_not_what_hangs_over") {
  // 1 2 3 with pad 1, kernel 2, stride 2: [0 1] [2 3], and no third window, which would begin in the padding.
  const Values in = {1, 2, 3, 1, 2, 3, 1, 2, 3};
  const Values out = forward(ceil_pool(LayerKind::kAveragePool, 2, 2, 1), {1, 3, 3}, in);
  check_close(out, {1.0 / 4, 5.0 / 4, 2.0 / 4, 10.0 / 4});
  // Without padding the last window of 5 pixels has one of its two.
  const Values row = {1, 2, 3, 4, 5};
  Values plane;
  for (int i = 0; i < 5; ++i) plane.insert(plane.end(), row.begin(), row.end());
  const Values means = forward(ceil_pool(LayerKind::kAveragePool, 2, 2), {1, 5, 5}, plane);
  check_close(means, {1.5, 3.5, 5, 1.5, 3.5, 5, 1.5, 3.5, 5});
}

TEST_CASE("a_window_that_would_be_empty_is_refused") {
  const auto network = build_network(train_with({ceil_pool(LayerKind::kPool, 1, 4)}), {1, 8, 8}, kAnyClasses);
  REQUIRE_FALSE(network.is_ok());
  CHECK_THAT(network.status().message(), Catch::Contains("its last window would be empty"));
}

TEST_CASE("lrn_divides_by_the_size_across_channels_and_by_its_square_within_one") {
  const Values in = noise(4 * 3 * 3, 8);
  const auto x = [&](std::int64_t c, std::int64_t h, std::int64_t w) {
    return c < 0 || c > 3 || h < 0 || h > 2 || w < 0 || w > 2
               ? 0.0
               : in[static_cast<std::size_t>((c * 3 + h) * 3 + w)];
  };
  Values across;
  Values within;
  for (std::int64_t c = 0; c < 4; ++c) {
    for (std::int64_t h = 0; h < 3; ++h) {
      for (std::int64_t w = 0; w < 3; ++w) {
        double sum = 0.0;
        for (std::int64_t near = c - 2; near <= c + 2; ++near) sum += x(near, h, w) * x(near, h, w);
        across.push_back(x(c, h, w) / std::pow(2.0 + 0.7 / 5 * sum, 0.75));
        sum = 0.0;
        for (std::int64_t i = h - 1; i <= h + 1; ++i) {
          for (std::int64_t j = w - 1; j <= w + 1; ++j) sum += x(c, i, j) * x(c, i, j);
        }
        within.push_back(x(c, h, w) / std::pow(1.0 + 0.7 / 9 * sum, 0.75));
      }
    }
  }
  check_close(forward(lrn(LrnRegion::kAcross, 5, 0.7, 2.0), {4, 3, 3}, in), across);
  check_close(forward(lrn(LrnRegion::kWithin, 3), {4, 3, 3}, in), within);
}

TEST_CASE("a_group_sees_its_own_channels_alone") {
  // Two channels, two groups, kernel 1: each output is its own channel times its weight, and its bias.
  const Values in = {1, 2, 3, 4, 10, 20, 30, 40};
  LayerConfig config = grouped(2, 1, 2);
  check_close(forward(config, {2, 2, 2}, in, {3, 5, 0.5, -1}), {3.5, 6.5, 9.5, 12.5, 49, 99, 149, 199});
  // A dilated kernel of three reaches over five pixels.
  config = {.kind = LayerKind::kConv, .out = 1, .kernel = 3, .padding = 0, .dilation = 2};
  Values plane(25, 0.0);
  plane[0] = 1, plane[12] = 10, plane[24] = 100, plane[6] = 1000;
  check_close(forward(config, {1, 5, 5}, plane, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0}), {111});
}

TEST_CASE("layers_of_caffe_agree_with_finite_differences") {
  for (std::size_t i = 0; i < networks_of_caffe().size(); ++i) {
    INFO("network " << i);
    check_gradient(network_of(networks_of_caffe()[i], {3, 7, 7}, 10));
  }
}

TEST_CASE("layers_of_caffe_agree_with_the_reference_on_onednn") {
  for (std::size_t i = 0; i < networks_of_caffe().size(); ++i) {
    INFO("network " << i);
    const NetworkSpec network = network_of(networks_of_caffe()[i], {3, 12, 10}, 10);
    check_against_reference(network, 4, 4, 80 + i);
    check_against_reference(network, 8, 5, 90 + i);
  }
}

TEST_CASE("fillers_are_caffes") {
  const auto spread = [](const FillerConfig& filler) {
    LayerConfig layer = grouped(200, 3, 2);
    layer.weight_init = filler;
    layer.bias_init = {.kind = FillerKind::kConstant, .value = 0.25};
    const NetworkSpec network = build_network(train_with({layer}), {20, 8, 8}, kAnyClasses).value();
    std::vector<float> parameters(static_cast<std::size_t>(network.layout.size()));
    initialize_parameters(network, 3, parameters);
    const Layer& made = network.layers.front();
    CHECK(parameters[static_cast<std::size_t>(made.bias.offset)] == 0.25F);
    double squares = 0.0;
    double most = 0.0;
    std::int64_t zeros = 0;
    for (std::int64_t j = 0; j < made.weight.size; ++j) {
      const double value = parameters[static_cast<std::size_t>(j)];
      squares += value * value;
      most = std::max(most, std::abs(value));
      zeros += value == 0.0 ? 1 : 0;
    }
    const auto count = static_cast<double>(made.weight.size);
    return std::array<double, 3>{std::sqrt(squares / count), most, static_cast<double>(zeros) / count};
  };
  // fan_in 10 x 3 x 3 (a group's channels), fan_out 200 x 3 x 3.
  const double xavier = std::sqrt(3.0 / 90);
  const auto [deviation, most, zeros] = spread({.kind = FillerKind::kXavier});
  CHECK(deviation == Approx(xavier / std::sqrt(3.0)).epsilon(0.02));
  CHECK(most <= xavier);
  CHECK(spread({.kind = FillerKind::kMsra, .norm = FillerNorm::kAverage})[0] ==
        Approx(std::sqrt(2.0 / 945)).epsilon(0.02));
  CHECK(spread({.kind = FillerKind::kGaussian, .std = 0.01})[0] == Approx(0.01).epsilon(0.02));
  CHECK(spread({.kind = FillerKind::kGaussian, .std = 0.01, .sparse = 50})[2] == Approx(0.75).epsilon(0.03));
}
