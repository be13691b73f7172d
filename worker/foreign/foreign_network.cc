#include "worker/foreign/foreign_network.h"

#include <omp.h>

#include <numeric>
#include <thread>
#include <utility>

#include "common/config/layers.h"
#include "common/label.h"

namespace paceline {
namespace {

constexpr std::int64_t kSideMax = 1 << 20;
constexpr std::int64_t kInputMax = 1 << 24;  // floats of a sample

bool fits(const Shape& input) {
  for (const std::int64_t side : {input.channels, input.height, input.width}) {
    if (side < 1 || side > kSideMax) return false;
  }
  return input.channels * input.height <= kInputMax && input.size() <= kInputMax;
}

// For as long as it lives, what the calling thread computes by OpenMP it computes alone. The thread is the user's,
// whose own number of threads it has again afterwards.
class OneCore {
 public:
  OneCore() { omp_set_num_threads(1); }
  ~OneCore() { omp_set_num_threads(before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace

ForeignNetwork::ForeignNetwork(NetworkSpec spec, std::unique_ptr<NetworkBackend> backend,
                               std::int64_t batch_size, std::uint64_t seed)
    : spec_(std::move(spec)), backend_(std::move(backend)), batch_size_(batch_size), seed_(seed) {}

Result<std::unique_ptr<ForeignNetwork>> ForeignNetwork::open(const std::string& layers, Shape input,
                                                             std::int64_t batch_size, std::uint64_t seed) {
  if (!fits(input)) {
    return invalid_argument("input of " + to_string(input) + ", expected sizes of at least 1 and at most " +
                            std::to_string(kInputMax) + " floats");
  }
  if (batch_size < 1 || batch_size > kForeignBatchMax) {
    return invalid_argument("batch size " + std::to_string(batch_size) + ", expected 1 to " +
                            std::to_string(kForeignBatchMax));
  }
  TrainSection train;
  train.model = "layers";
  train.batch_size = batch_size;
  PACELINE_ASSIGN_OR_RETURN(train.layers, parse_layers(layers, "layers"));
  // First to learn how many classes there are; then as the network that it has to be for a loss.
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec of_any_classes, build_network(train, input, kAnyClasses));
  if (of_any_classes.classes < 2 || of_any_classes.classes > kClassesMax) {
    return invalid_argument("layers: the last gives " + std::to_string(of_any_classes.classes) +
                            " numbers, expected 2 to " + std::to_string(kClassesMax) +
                            ", one for each class");
  }
  PACELINE_ASSIGN_OR_RETURN(NetworkSpec spec, build_network(train, input, of_any_classes.classes));
  const OneCore alone;  // make_backend() leaves one thread
  PACELINE_ASSIGN_OR_RETURN(auto backend, make_backend(Backend::kOnednn, spec, batch_size, seed));
  return std::unique_ptr<ForeignNetwork>(
      new ForeignNetwork(std::move(spec), std::move(backend), batch_size, seed));
}

void ForeignNetwork::initialize(std::span<float> parameters) const {
  initialize_parameters(spec_, seed_, parameters);
}

Result<Batch> ForeignNetwork::batch(std::span<const float> samples, std::span<const std::int64_t> labels,
                                    std::int64_t position) {
  if (std::this_thread::get_id() != made_by_) {
    return failed_precondition("a network belongs to the thread that made it, got a call of another one");
  }
  if (labels.empty() || std::ssize(labels) > batch_size_) {  // before any of them is read
    return invalid_argument("mini-batch of " + std::to_string(labels.size()) + " samples, expected 1 to " +
                            std::to_string(batch_size_));
  }
  labels_.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= spec_.classes) {
      return invalid_argument("label " + std::to_string(labels[i]) + " at position " + std::to_string(i) +
                              ", expected 0 to " + std::to_string(spec_.classes - 1));
    }
    labels_[i] = static_cast<Label>(labels[i]);
  }
  ids_.resize(labels.size());
  std::iota(ids_.begin(), ids_.end(), position);
  epochs_.assign(labels.size(), 0);
  return Batch{samples, labels_, ids_, epochs_};
}

Result<Metric> ForeignNetwork::gradient(std::span<const float> parameters, std::span<const float> samples,
                                        std::span<const std::int64_t> labels, std::int64_t position,
                                        std::span<float> gradient) {
  PACELINE_ASSIGN_OR_RETURN(const Batch given, batch(samples, labels, position));
  const OneCore alone;
  return backend_->gradient(parameters, given, gradient, [](std::int64_t) {});
}

Result<Metric> ForeignNetwork::evaluate(std::span<const float> parameters, std::span<const float> samples,
                                        std::span<const std::int64_t> labels) {
  PACELINE_ASSIGN_OR_RETURN(const Batch given, batch(samples, labels, 0));
  const OneCore alone;
  return backend_->evaluate(parameters, given);
}

}  // namespace paceline
