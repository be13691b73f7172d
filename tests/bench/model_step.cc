// Times one training step of a back end, local optimizer included, without servers, data set or threads: what
// the daemons cannot be faster than. Prints one JSON line. tests/bench/step_vs_pytorch.py sets it beside
// PyTorch on a CPU, tests/bench/gpu_step_vs_pytorch.py on a GPU.
//
//   bench_model_step MODEL BATCH STEPS [DROPOUT [WHERE [OPTIMIZER [DATA]]]]   e.g. … cifar_cnn 128 20
//
// STEPS: how many are timed; -: for each line of standard input, a number, so many are made and a line with
// the ms of each of them is printed, so that two programs can take turns on one GPU. WHERE: cpu (oneDNN), cpu-bf16, or
// on the first GPU fp32, tf32, bf16 or fp16: as a worker there, with parameters and optimizer on the GPU, and the
// gradient on the host, too, after each step. OPTIMIZER: adam or sgd. DATA, on a GPU: kept, the training set
// is there (`data.on_device: auto`); predicted, two mini-batches in page-locked memory take turns, each sent
// beside the step of the other (`off`); sent, each in front of its own step. resnet50's are 224 x 224, and not kept.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/names.h"
#include "common/params/optimizer.h"
#include "common/random.h"
#include "common/ticks.h"
#include "tests/bench/median.h"
#include "worker/data/batch_maker.h"
#include "worker/model/backend.h"
#include "worker/model/gpu_module.h"

namespace paceline {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kRate = 1e-3;

// Of what images a network is timed. resnet50's are drawn as they are, since data sets have 32 x 32.
constexpr Shape kLargeImages{3, 224, 224};

// As many samples as a mini-batch has.
DataSet random_samples(std::int64_t count, std::int64_t classes) {
  CounterRandom random(kSeed, Stream::kTest);
  DataSet set;
  for (std::int64_t i = 0; i < count; ++i) {
    set.labels.push_back(static_cast<std::uint8_t>(random.next_below(static_cast<std::uint32_t>(classes))));
  }
  for (std::int64_t i = 0; i < count * kImageSize; ++i) {
    set.pixels.push_back(static_cast<std::uint8_t>(random.next_below(256)));
  }
  return set;
}

// How mini-batches come to a GPU.
enum class Data { kKept, kPredicted, kSent };

std::optional<Data> data_named(const std::string& name) {
  if (name == "kept") return Data::kKept;
  if (name == "predicted") return Data::kPredicted;
  if (name == "sent") return Data::kSent;
  return std::nullopt;
}

// What computes, and, on a GPU, holds the parameters.
struct Computing {
  std::shared_ptr<Gpus> gpus;  // null: the CPU
  std::unique_ptr<CacheVectors> vectors;
  std::unique_ptr<NetworkBackend> backend;
};

Result<Computing> computing_at(const std::string& where, const NetworkSpec& network,
                               const TrainSection& train, const DataSet& samples, Data data) {
  Computing with;
  if (where == "cpu" || where == "cpu-bf16") {
    PACELINE_ASSIGN_OR_RETURN(with.backend,
                              make_backend(Backend::kOnednn, network, samples.size(), kSeed, nullptr,
                                           where == "cpu" ? Precision::kFp32 : Precision::kBf16));
    return with;
  }
  const auto precision = named<Precision>(where);
  if (!precision) return invalid_argument(where + ", expected cpu, cpu-bf16, fp32, tf32, bf16 or fp16");
  PACELINE_ASSIGN_OR_RETURN(with.gpus, load_gpus({{0}, *precision}));
  if (data == Data::kKept) {
    PACELINE_RETURN_IF_ERROR(
        with.gpus->keep(samples, normalization_of(samples), {Augment::kNo, kSeed}).status());
  }
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, with.gpus->for_thread(0, nullptr));
  PACELINE_ASSIGN_OR_RETURN(with.vectors, thread.make_vectors(network, train.optimizer));
  PACELINE_ASSIGN_OR_RETURN(with.backend, thread.make_backend(network, samples.size(), kSeed));
  return with;
}

// Processor time of this process; on a busy machine, what a step costs when nobody interrupts it.
double cpu_ms() { return static_cast<double>(std::clock()) * 1e3 / CLOCKS_PER_SEC; }

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A mini-batch that stays the same, twice, and the steps made on it.
class Training {
 public:
  Training(const TrainSection& train, const NetworkSpec& network, const DataSet& samples, Data data,
           Computing with)
      : memory_(with.gpus != nullptr ? with.gpus->page_locked(nullptr) : nullptr),
        data_(data),
        batches_{MiniBatch(memory()), MiniBatch(memory())},
        with_(std::move(with)),
        parameters_(network.layout.size()),
        gradient_(std::make_shared<Gradient>(parameters_.size(), &memory())),
        applies_at_once_(train.optimizer.kind != OptimizerKind::kSgd),
        optimizer_(train.optimizer, network.layout.size()) {
    for (MiniBatch& batch : batches_) {
      make_evaluation_batch(samples, normalization_of(samples), 0, samples.size(), batch);
      if (network.input == kLargeImages) draw(samples.size() * kLargeImages.size(), batch.images);
    }
    initialize_parameters(network, kSeed, parameters_);
    if (with_.vectors != nullptr) {
      with_.vectors->take_over(0, std::make_shared<const std::vector<float>>(parameters_), {});
    }
  }

  // Returns when the last of them is done, with its mean loss.
  Result<double> run_steps(int steps) {
    double loss = 0.0;
    for (int step = 0; step < steps; ++step) {
      PACELINE_ASSIGN_OR_RETURN(const Metric metric, with_.vectors != nullptr ? step_there() : step_here());
      loss = metric.loss_sum / static_cast<double>(metric.samples);
    }
    return loss;
  }

 private:
  using Gradient = std::pmr::vector<float>;

  static void draw(std::int64_t count, std::pmr::vector<float>& values) {
    CounterRandom random(kSeed, Stream::kTest, 1);
    values.resize(static_cast<std::size_t>(count));
    for (float& value : values) value = random.next_float() - 0.5F;
  }

  std::pmr::memory_resource& memory() const {
    return memory_ != nullptr ? *memory_ : *std::pmr::new_delete_resource();
  }
  Batch batch_of(std::int64_t step) const {
    const MiniBatch& batch = batches_[static_cast<std::size_t>(step % 2)];
    const bool named = with_.vectors != nullptr && data_ == Data::kKept;
    return {named ? std::span<const float>() : batch.images, batch.labels, batch.samples, batch.epochs};
  }

  Result<Metric> step_here() {
    PACELINE_ASSIGN_OR_RETURN(
        const Metric metric, with_.backend->gradient(parameters_, batch_of(0), *gradient_, whole_at_the_end));
    optimizer_.apply(parameters_, *gradient_, kRate);
    return metric;
  }

  Result<Metric> step_there() {
    CacheVectors& vectors = *with_.vectors;
    const Batch batch = batch_of(steps_++);
    if (data_ == Data::kPredicted) with_.backend->predict(batch_of(steps_));
    PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                              with_.backend->gradient({}, batch, *gradient_, whole_at_the_end));
    if (applies_at_once_) {
      vectors.apply_with_state(gradient_, kRate, 1.0);
    } else {
      vectors.keep_gradient(gradient_, kRate);
      vectors.apply_newest({0, static_cast<std::int64_t>(parameters_.size())});
    }
    vectors.drop_oldest();
    PACELINE_RETURN_IF_ERROR(vectors.status());
    return metric;
  }

  const std::shared_ptr<std::pmr::memory_resource> memory_;
  const Data data_;
  std::array<MiniBatch, 2> batches_;
  const Computing with_;  // gone before them: a GPU may read the next
  std::int64_t steps_ = 0;
  std::vector<float> parameters_;
  const std::shared_ptr<Gradient> gradient_;
  const bool applies_at_once_;
  OptimizerState optimizer_;
};

// One line for each line of standard input.
Status take_turns(Training& training) {
  for (int steps = 0; std::cin >> steps;) {
    if (steps < 1) return invalid_argument(std::to_string(steps) + " steps, expected 1 or more");
    const Ticks begin = steady_now();
    PACELINE_ASSIGN_OR_RETURN(const double loss, training.run_steps(steps));
    std::printf("{\"steps\": %d, \"ms\": %.5f, \"loss\": %.5f}\n", steps,
                to_seconds(steady_now() - begin) * 1e3 / steps, loss);
    std::fflush(stdout);
  }
  return Status::ok();
}

// `kilobytes_before`: the most memory of this process when nothing of the training was there yet.
Status time_steps(Training& training, const std::string& about, int steps, long kilobytes_before) {
  constexpr int kWarmUp = 3;  // first touch of the memory, code generation
  PACELINE_RETURN_IF_ERROR(training.run_steps(kWarmUp).status());
  std::vector<double> ms;
  std::vector<double> cpu;
  double loss = 0.0;
  for (int step = 0; step < steps; ++step) {
    const Ticks begin = steady_now();
    const double cpu_begin = cpu_ms();
    PACELINE_ASSIGN_OR_RETURN(loss, training.run_steps(1));
    ms.push_back(to_seconds(steady_now() - begin) * 1e3);
    cpu.push_back(cpu_ms() - cpu_begin);
  }
  std::printf(
      "{%s, \"steps\": %d, \"median_ms\": %.3f, \"median_cpu_ms\": %.3f, "
      "\"step_kb\": %ld, \"loss\": %.4f}\n",
      about.c_str(), steps, bench::median(ms), bench::median(cpu), peak_kilobytes() - kilobytes_before, loss);
  return Status::ok();
}

struct Arguments {
  std::string model, steps, where = "cpu", optimizer = "adam", data = "kept";
  std::int64_t batch_size = 0;
  double dropout = 0.0;
};

Status run(const Arguments& arguments) {
  const long kilobytes_before = peak_kilobytes();
  TrainSection train;
  train.model = arguments.model;
  train.dropout = arguments.dropout;
  const auto kind = named<OptimizerKind>(arguments.optimizer);
  if (!kind) return invalid_argument(arguments.optimizer + ", expected adam or sgd");
  train.optimizer.kind = *kind;
  const bool is_large = arguments.model == "resnet50";
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network,
                            is_large ? build_network(train, kLargeImages, 1000) : build_network(train));
  const DataSet samples = random_samples(arguments.batch_size, std::min<std::int64_t>(network.classes, 256));
  const auto data = data_named(arguments.data);
  if (!data) return invalid_argument(arguments.data + ", expected kept, predicted or sent");
  PACELINE_ASSIGN_OR_RETURN(Computing with, computing_at(arguments.where, network, train, samples, *data));
  Training training(train, network, samples, *data, std::move(with));
  if (arguments.steps == "-") return take_turns(training);
  return time_steps(training,
                    "\"model\": \"" + arguments.model + "\", \"where\": \"" + arguments.where +
                        "\", \"batch\": " + std::to_string(arguments.batch_size),
                    std::atoi(arguments.steps.c_str()), kilobytes_before);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc < 4 || std::atoi(argv[2]) < 1 || (std::string(argv[3]) != "-" && std::atoi(argv[3]) < 1)) {
    std::fprintf(stderr,
                 "usage: bench_model_step MODEL BATCH STEPS|- [DROPOUT [WHERE [OPTIMIZER [DATA]]]]\n");
    return 2;
  }
  paceline::Arguments arguments;
  arguments.model = argv[1];
  arguments.batch_size = std::atoi(argv[2]);
  arguments.steps = argv[3];
  if (argc > 4) arguments.dropout = std::atof(argv[4]);
  if (argc > 5) arguments.where = argv[5];
  if (argc > 6) arguments.optimizer = argv[6];
  if (argc > 7) arguments.data = argv[7];
  const paceline::Status status = paceline::run(arguments);
  if (status.is_ok()) return 0;
  std::fprintf(stderr, "bench_model_step: %s\n", status.message().c_str());
  return status.code() == paceline::StatusCode::kInvalidArgument ? 2 : 1;
}
