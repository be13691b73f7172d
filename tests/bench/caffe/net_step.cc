// Times one training step of a Caffe net, momentum included, on one thread, without servers or data: what the daemons
// cannot be faster than. Prints one JSON line, with the most memory that the process had.
// tests/bench/caffe/caffenet_vs_pytorch.py sets it beside PyTorch.
//
//   bench_caffe_step NET.prototxt C,H,W BATCH STEPS
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <type_traits>
#include <vector>

#include "common/caffe/net.h"
#include "common/params/optimizer.h"
#include "common/random.h"
#include "common/ticks.h"
#include "tests/bench/median.h"
#include "worker/model/backend.h"

namespace paceline {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kRate = 1e-3;

double cpu_ms() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Result<NetworkSpec> network_of(const std::string& file, const Shape& input, std::int64_t batch_size) {
  std::vector<std::string> notes;
  PACELINE_ASSIGN_OR_RETURN(const caffe::Net net, caffe::read_net(file, {}, notes));
  TrainSection train;
  train.model = "layers";
  train.layers = net.layers;
  train.batch_size = batch_size;
  return build_network(train, input, kAnyClasses);
}

Status run(const std::string& file, const Shape& input, std::int64_t batch_size, int steps) {
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, network_of(file, input, batch_size));
  const auto floats = static_cast<std::size_t>(network.layout.size());
  std::vector<float> parameters(floats), gradient(floats);
  initialize_parameters(network, kSeed, parameters);
  OptimizerSection rule;
  rule.kind = OptimizerKind::kMomentum;
  OptimizerState optimizer(rule, network.layout.size());
  CounterRandom random(kSeed, Stream::kTest);
  std::vector<float> images(static_cast<std::size_t>(batch_size * input.size()));
  for (float& value : images) value = random.next_float() - 0.5F;
  std::vector<std::remove_const_t<decltype(Batch::labels)::element_type>> labels(
      static_cast<std::size_t>(batch_size));
  std::vector<std::int64_t> ids(labels.size()), epochs(labels.size());
  for (std::size_t n = 0; n < labels.size(); ++n) {
    labels[n] = static_cast<decltype(labels)::value_type>(n % 250);
    ids[n] = static_cast<std::int64_t>(n);
  }
  PACELINE_ASSIGN_OR_RETURN(const auto backend, make_backend(Backend::kOnednn, network, batch_size, kSeed));
  constexpr int kWarmUp = 3;  // first touch of the memory, code generation
  std::vector<double> ms, cpu;
  double loss = 0.0;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const Ticks begin = steady_now();
    const double cpu_begin = cpu_ms();
    PACELINE_ASSIGN_OR_RETURN(
        const Metric metric,
        backend->gradient(parameters, {images, labels, ids, epochs}, gradient, whole_at_the_end));
    optimizer.apply(parameters, gradient, kRate);
    loss = metric.loss_sum / static_cast<double>(metric.samples);
    if (step < kWarmUp) continue;
    ms.push_back(to_seconds(steady_now() - begin) * 1e3);
    cpu.push_back(cpu_ms() - cpu_begin);
  }
  std::printf(
      "{\"median_ms\": %.3f, \"median_cpu_ms\": %.3f, \"peak_kb\": %ld, \"parameters\": %lld, \"loss\": "
      "%.4f}\n",
      bench::median(ms), bench::median(cpu), peak_kilobytes(), static_cast<long long>(network.layout.size()),
      loss);
  return Status::ok();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  long long c = 0, h = 0, w = 0;
  if (argc != 5 || std::sscanf(argv[2], "%lld,%lld,%lld", &c, &h, &w) != 3 || std::atoi(argv[3]) < 1 ||
      std::atoi(argv[4]) < 1) {
    std::fprintf(stderr, "usage: bench_caffe_step NET.prototxt C,H,W BATCH STEPS\n");
    return 2;
  }
  const auto input = paceline::caffe::input_shape(c, h, w);
  const paceline::Status done =
      input.is_ok() ? paceline::run(argv[1], *input, std::atoi(argv[3]), std::atoi(argv[4])) : input.status();
  if (done.is_ok()) return 0;
  std::fprintf(stderr, "bench_caffe_step: %s\n", done.message().c_str());
  return 1;
}
