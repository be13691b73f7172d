// The built-in network for a loop of a user's own.
#include "worker/foreign/foreign_network.h"

#include <omp.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline {
namespace {

const std::string kLayers = "[{kind: dense, out: 8}, {kind: relu}, {kind: dense, out: 2}]";

// Points of the unit square, and whether they are below the diagonal.
struct Points {
  std::vector<float> samples;
  std::vector<std::int64_t> labels;
};
Points points(int count) {
  Points made;
  for (int i = 0; i < count; ++i) {
    const float x = static_cast<float>(i * 37 % 101) / 101.0F;
    const float y = static_cast<float>(i * 61 % 103) / 103.0F;
    made.samples.insert(made.samples.end(), {x, y});
    made.labels.push_back(x > y ? 1 : 0);
  }
  return made;
}

std::vector<float> initial(const ForeignNetwork& network) {
  std::vector<float> parameters(static_cast<std::size_t>(network.spec().layout.size()));
  network.initialize(parameters);
  return parameters;
}

TEST_CASE("a loop's own steps with the built-in network learn what its samples say") {
  const auto network = ForeignNetwork::open(kLayers, {2, 1, 1}, 64, 1).value();
  CHECK(network->spec().classes == 2);
  CHECK(network->spec().layout.size() == 2 * 8 + 8 + 8 * 2 + 2);
  const Points all = points(64);
  std::vector<float> parameters = initial(*network);
  std::vector<float> gradient(parameters.size());
  for (int step = 0; step < 400; ++step) {
    const auto computed = network->gradient(parameters, all.samples, all.labels, 64 * step, gradient);
    REQUIRE(computed.is_ok());
    CHECK(computed->samples == 64);
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.5F * gradient[i];
  }
  CHECK(network->evaluate(parameters, all.samples, all.labels).value().correct >= 62);
}

TEST_CASE("a loop's thread keeps its own number of OpenMP's threads") {
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  const auto network = ForeignNetwork::open(kLayers, {2, 1, 1}, 64, 1).value();
  CHECK(omp_get_max_threads() == 3);
  const Points all = points(64);
  const std::vector<float> parameters = initial(*network);
  std::vector<float> gradient(parameters.size());
  CHECK(network->gradient(parameters, all.samples, all.labels, 0, gradient).is_ok());
  CHECK(omp_get_max_threads() == 3);
  CHECK(network->evaluate(parameters, all.samples, all.labels).is_ok());
  CHECK(omp_get_max_threads() == 3);
  omp_set_num_threads(before);
}

TEST_CASE("dropout of a loop's mini-batch is drawn by its position in the run") {
  const auto network =
      ForeignNetwork::open("[{kind: dropout, rate: 0.5}, {kind: dense, out: 2}]", {2, 1, 1}, 64, 1).value();
  const Points all = points(64);
  const std::vector<float> parameters = initial(*network);
  const auto gradient_at = [&](std::int64_t position) {
    std::vector<float> gradient(parameters.size());
    REQUIRE(network->gradient(parameters, all.samples, all.labels, position, gradient).is_ok());
    return gradient;
  };
  CHECK(gradient_at(0) == gradient_at(0));
  CHECK(gradient_at(0) != gradient_at(64));
}

TEST_CASE("layers, sizes and labels that do not fit are named") {
  const auto refused = [](const std::string& layers, Shape input, std::int64_t batch_size) {
    return ForeignNetwork::open(layers, input, batch_size, 1).status().message();
  };
  CHECK(refused("[{kind: dense, out: 0}]", {2, 1, 1}, 8) ==
        "layers:1: layers[0].out: out of range, got \"0\", expected a whole number from 1 to 1048576");
  CHECK(refused("{kind: relu}", {2, 1, 1}, 8) ==
        "layers:1: layers: wrong type, got a map, expected a list of layers in one line");
  CHECK(refused("[{kind: dense, out: 1}]", {2, 1, 1}, 8) ==
        "layers: the last gives 1 numbers, expected 2 to 65536, one for each class");
  CHECK(refused("[{kind: dense, out: 2}, {kind: relu}]", {2, 1, 1}, 8) ==
        "train.layers[1]: relu: it is last, expected dense with out 2 (the number of classes)");
  CHECK(refused(kLayers, {2, 0, 1}, 8) ==
        "input of 2x0x1, expected sizes of at least 1 and at most 16777216 floats");
  CHECK(refused(kLayers, {2, 1, 1}, 0) == "batch size 0, expected 1 to 65536");

  const auto network = ForeignNetwork::open(kLayers, {2, 1, 1}, 8, 1).value();
  const std::vector<float> parameters = initial(*network);
  Points some = points(9);
  CHECK(network->evaluate(parameters, some.samples, some.labels).status().message() ==
        "mini-batch of 9 samples, expected 1 to 8");
  some = points(8);
  some.labels[5] = 2;
  CHECK(network->evaluate(parameters, some.samples, some.labels).status().message() ==
        "label 2 at position 5, expected 0 to 1");
  some.labels[5] = 1;
  some.samples.pop_back();
  CHECK(network->evaluate(parameters, some.samples, some.labels).status().message() ==
        "mini-batch of 8 samples with 15 floats of images, expected 16");
}

}  // namespace
}  // namespace paceline
