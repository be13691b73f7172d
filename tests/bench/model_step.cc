// Times one training step of a back end, local Adam on the CPU included, without servers, data set or
// threads: what the daemons cannot be faster than. Prints one JSON line. tests/bench/step_vs_pytorch.py sets
// it beside PyTorch.
//
//   bench_model_step MODEL BATCH STEPS [DROPOUT [WHERE]]      e.g. bench_model_step cifar_cnn_small 128 20
//
// WHERE: cpu (oneDNN), or on the first GPU fp32, tf32 or bf16: parameters go there and the gradient comes
// back.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "common/config/names.h"
#include "common/params/optimizer.h"
#include "common/random.h"
#include "common/ticks.h"
#include "worker/model/backend.h"
#include "worker/model/gpu_module.h"

namespace paceline {
namespace {

Result<std::unique_ptr<NetworkBackend>> backend_at(const std::string& where, const NetworkSpec& network,
                                                   std::int64_t batch_size, std::uint64_t seed) {
  if (where == "cpu") return make_backend(Backend::kOnednn, network, batch_size, seed);
  const auto precision = named<Precision>(where);
  if (!precision) return invalid_argument(where + ", expected cpu, fp32, tf32 or bf16");
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, load_gpus({{0}, *precision}));
  PACELINE_ASSIGN_OR_RETURN(const MakeBackend make, gpus->for_thread(0));
  return make(network, batch_size, seed);
}

// Processor time of this process; on a busy machine, what a step costs when nobody interrupts it.
double cpu_ms() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int run(const std::string& model, std::int64_t batch_size, int steps, double dropout,
        const std::string& where) {
  constexpr std::uint64_t kSeed = 1;
  TrainSection train;
  train.model = model;
  train.dropout = dropout;
  train.optimizer.kind = OptimizerKind::kAdam;
  const auto network = build_network(train);
  if (!network) return std::fprintf(stderr, "%s\n", network.status().message().c_str()), 2;
  auto backend = backend_at(where, *network, batch_size, kSeed);
  if (!backend) return std::fprintf(stderr, "%s\n", backend.status().message().c_str()), 1;

  CounterRandom random(kSeed, Stream::kTest);
  std::vector<float> images(batch_size * network->input.size());
  for (float& x : images) x = random.next_float() - 0.5F;
  std::vector<std::uint8_t> labels(batch_size);
  for (std::uint8_t& label : labels) label = static_cast<std::uint8_t>(random.next_below(network->classes));
  std::vector<std::int64_t> keys(batch_size);
  const Batch batch{images, labels, keys, keys};

  std::vector<float> parameters(network->layout.size());
  std::vector<float> gradient(parameters.size());
  initialize_parameters(*network, kSeed, parameters);
  OptimizerState adam(train.optimizer, network->layout.size());

  constexpr int kWarmUp = 3;  // first touch of the memory, code generation
  std::vector<double> ms;
  std::vector<double> cpu;
  double loss = 0.0;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const Ticks begin = steady_now();
    const double cpu_begin = cpu_ms();
    const auto metric = (*backend)->gradient(parameters, batch, gradient, whole_at_the_end);
    if (!metric) return std::fprintf(stderr, "%s\n", metric.status().message().c_str()), 1;
    adam.apply(parameters, gradient, 1e-3);
    if (step >= kWarmUp) {
      ms.push_back(to_seconds(steady_now() - begin) * 1e3);
      cpu.push_back(cpu_ms() - cpu_begin);
    }
    loss = metric->loss_sum / static_cast<double>(metric->samples);
  }
  std::printf(
      "{\"model\": \"%s\", \"where\": \"%s\", \"batch\": %lld, \"steps\": %d, \"median_ms\": %.3f, "
      "\"median_cpu_ms\": %.3f, "
      "\"loss\": %.4f}\n",
      model.c_str(), where.c_str(), static_cast<long long>(batch_size), steps, median(ms), median(cpu), loss);
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc < 4 || std::atoi(argv[2]) < 1 || std::atoi(argv[3]) < 1) {
    std::fprintf(stderr, "usage: bench_model_step MODEL BATCH STEPS [DROPOUT [WHERE]]\n");
    return 2;
  }
  return paceline::run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? std::atof(argv[4]) : 0.0,
                       argc > 5 ? argv[5] : "cpu");
}
