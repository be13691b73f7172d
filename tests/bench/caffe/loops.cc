// Layers that oneDNN does not have as Caffe wants them, each beside its nearest kind that the library has: forward and
// back, on one thread, in turns. What the layers around them take is measured as well and taken off both. Prints a line
// for each pair with the median of their ratios in processor time; the exit status is 1 where one is above 1.3.
//
//   bench_caffe_loops [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "tests/bench/median.h"
#include "worker/model/backend.h"

namespace paceline {
namespace {

constexpr double kLimit = 1.3;
constexpr std::int64_t kSamples = 16;
constexpr Shape kInput{32, 56, 56};
constexpr int kStepsOfATurn = 5;

using Layers = std::vector<LayerConfig>;

LayerConfig of(std::string name, std::vector<std::string> from, LayerConfig layer) {
  layer.name = std::move(name);
  layer.from = std::move(from);
  return layer;
}
LayerConfig average(std::int64_t padding, WindowEnd end) {
  return {.kind = LayerKind::kAveragePool, .kernel = 3, .stride = 2, .padding = padding, .window_end = end};
}
LayerConfig largest(WindowEnd end) {
  return {.kind = LayerKind::kPool, .kernel = 3, .stride = 2, .padding = 0, .window_end = end};
}
LayerConfig lrn(LrnRegion region) {
  return {.kind = LayerKind::kLrn, .size = 5, .alpha = 5e-5, .beta = 0.75, .region = region};
}
LayerConfig norm(bool debias) { return {.kind = LayerKind::kBatchNorm, .affine = !debias, .debias = debias}; }
LayerConfig front() {
  return {.kind = LayerKind::kConv, .out = kInput.channels, .kernel = 1, .stride = 1, .padding = 0};
}
LayerConfig slice(std::int64_t part) { return {.kind = LayerKind::kSlice, .part = part, .parts = 2}; }

// Two values with weights in front of them, so that something goes back through what is measured, in the format that
// convolutions choose; after it their means and a score.
Layers with(const Layers& measured, const std::vector<std::string>& read) {
  Layers layers = {of("a", {"input"}, front()), of("b", {"input"}, front())};
  layers.insert(layers.end(), measured.begin(), measured.end());
  std::vector<std::string> means;
  for (const std::string& value : read) {
    means.push_back(value + "_mean");
    layers.push_back(of(means.back(), {value}, {.kind = LayerKind::kGlobalAveragePool}));
  }
  layers.push_back(of("means", means, {.kind = LayerKind::kConcat}));
  if (means.size() == 1) layers.back().kind = LayerKind::kFlatten;
  layers.push_back(of("scores", {"means"}, {.kind = LayerKind::kDense, .out = 10}));
  return layers;
}
Layers of_one(const LayerConfig& layer) { return with({of("x", {"a"}, layer)}, {"x", "b"}); }
Layers of_two(const LayerConfig& layer) {
  return with({of("x", {"a", "b"}, layer), of("y", {"b", "a"}, layer)}, {"x", "y"});
}

// One network, ready to take steps.
class Steps {
 public:
  explicit Steps(const Layers& layers) {
    TrainSection train;
    train.model = "layers";
    train.layers = layers;
    train.batch_size = kSamples;
    network_ = build_network(train, kInput, kAnyClasses).value();
    backend_ = make_backend(Backend::kOnednn, network_, kSamples, 1).value();
    const auto floats = static_cast<std::size_t>(network_.layout.size());
    parameters_.resize(floats);
    gradient_.resize(floats);
    initialize_parameters(network_, 1, parameters_);
    CounterRandom random(1, Stream::kTest);
    images_.resize(static_cast<std::size_t>(kSamples * kInput.size()));
    for (float& value : images_) value = random.next_float() - 0.5F;
    for (std::int64_t n = 0; n < kSamples; ++n) labels_.push_back(static_cast<Label>(n % 10));
    turn();  // first touch of the memory, code generation
  }

  // Milliseconds of processor time of one step.
  double turn() {
    const std::clock_t begin = std::clock();
    for (int i = 0; i < kStepsOfATurn; ++i) {
      const auto metric =
          backend_->gradient(parameters_, {images_, labels_, {}, {}}, gradient_, whole_at_the_end);
      if (metric.is_ok()) continue;
      std::fprintf(stderr, "bench_caffe_loops: %s\n", metric.status().message().c_str());
      std::exit(2);
    }
    return static_cast<double>(std::clock() - begin) * 1e3 / CLOCKS_PER_SEC / kStepsOfATurn;
  }

 private:
  NetworkSpec network_;
  std::unique_ptr<NetworkBackend> backend_;
  std::vector<float> parameters_, gradient_, images_;
  std::vector<Label> labels_;
};

struct Pair {
  const char* name;
  Layers ours;
  Layers nearest;
};

std::vector<Pair> pairs() {
  // With coefficients, so that each input has a difference of its own.
  const LayerConfig add{.kind = LayerKind::kAdd, .coefficients = {0.5, -2.0}};
  return {
      {"average over padding with an overhang, beside one without", of_one(average(1, WindowEnd::kCeil)),
       of_one(average(1, WindowEnd::kFloor))},
      {"average with an overhang, beside one without", of_one(average(0, WindowEnd::kCeil)),
       of_one(average(0, WindowEnd::kFloor))},
      {"largest with an overhang, beside one without", of_one(largest(WindowEnd::kCeil)),
       of_one(largest(WindowEnd::kFloor))},
      {"LRN within channels, beside across", of_one(lrn(LrnRegion::kWithin)),
       of_one(lrn(LrnRegion::kAcross))},
      {"Caffe's batch norm, beside the usual one", of_one(norm(true)), of_one(norm(false))},
      {"Slice into two, beside Concat of two",
       with({of("x", {"a"}, slice(0)), of("y", {"a"}, slice(1))}, {"x", "y", "b"}),
       with({of("x", {"a", "b"}, {.kind = LayerKind::kConcat})}, {"x", "a"})},
      {"Eltwise PROD of two, beside SUM", of_two({.kind = LayerKind::kMultiply}), of_two(add)},
      {"Eltwise MAX of two, beside SUM", of_two({.kind = LayerKind::kMaximum}), of_two(add)},
  };
}

// The median ratio of ours to the nearest, without what is around both.
double measure(const Pair& pair, int rounds) {
  Steps ours(pair.ours), nearest(pair.nearest), around(with({}, {"a", "b"}));
  std::vector<double> ratios, of_ours, of_nearest;
  for (int round = 0; round < rounds; ++round) {
    const bool ours_first = round % 2 == 0;
    double mine = ours_first ? ours.turn() : 0.0;
    const double beside = around.turn();
    const double its = nearest.turn() - beside;
    mine = (ours_first ? mine : ours.turn()) - beside;
    of_ours.push_back(mine);
    of_nearest.push_back(its);
    ratios.push_back(mine / its);
  }
  const double ratio = bench::median(ratios);
  std::printf("%-60s %6.2f   %.3f ms, %.3f ms\n", pair.name, ratio, bench::median(of_ours),
              bench::median(of_nearest));
  return ratio;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: bench_caffe_loops [ROUNDS]\n");
    return 2;
  }
  bool slow = false;
  for (const paceline::Pair& pair : paceline::pairs())
    slow |= paceline::measure(pair, rounds) > paceline::kLimit;
  return slow ? 1 : 0;
}
