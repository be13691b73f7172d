#include "worker/run_data.h"

#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "common/caffe/mean_file.h"
#include "common/fnv1a.h"
#include "common/hex.h"
#include "worker/data/augment.h"
#include "worker/data/cifar10.h"
#include "worker/images/image_folder.h"
#include "worker/images/image_samples.h"

namespace paceline {
namespace {

FixedParts parts_of(const RunConfig& config) {
  if (config.data.parts == DataParts::kAnew) return {};
  const Cluster cluster = config.cluster.cluster();
  return {cluster.nodes, cluster.threads_per_node, config.train.round_samples()};
}

// Of the losses that look at labels; they have the same one, or none can be out of the ordinary.
std::optional<std::int64_t> ignored_label(const TrainSection& train) {
  for (const LayerConfig& layer : train.layers) {
    if (layer.ignore_label) return layer.ignore_label;
  }
  return std::nullopt;
}

}  // namespace

RunData::RunData(const RunConfig& config)
    : data_(config.data),
      options_{config.data.augment ? Augment::kYes : Augment::kNo, config.run.seed},
      parts_(parts_of(config)) {}

Result<RunData> RunData::open(const RunConfig& config, RunFolder run_folder) {
  if (config.data.path.empty()) {
    return invalid_argument(
        "data.path: no data set, got none, expected the folder with data_batch_1.bin … test_batch.bin "
        "(data.path=DIR; `paceline data synthesize --out DIR` writes one)");
  }
  RunData data(config);
  PACELINE_RETURN_IF_ERROR(config.data.kind == DataKind::kImages ? data.open_pictures(config, run_folder)
                                                                 : data.open_files());
  const std::int64_t expected = config.data.train_samples.value_or(data.train_->size());
  if (data.train_->size() != expected) {
    return invalid_argument("data.train_samples: an epoch has other samples, got " +
                            std::to_string(expected) + ", expected " + std::to_string(data.train_->size()) +
                            ", which '" + config.data.path + "' has");
  }
  if (data.train_->size() < data.parts_.nodes) {
    return invalid_argument("data.parts: fixed, and '" + config.data.path + "' has " +
                            std::to_string(data.train_->size()) +
                            " training samples, expected at least one for each of " +
                            std::to_string(data.parts_.nodes) + " nodes");
  }
  return data;
}

Status RunData::open_files() {
  if (data_.kind == DataKind::kCifar10) PACELINE_RETURN_IF_ERROR(check_whole_cifar10(data_.path));
  PACELINE_ASSIGN_OR_RETURN(in_memory_, read_cifar10_train(data_.path));
  pixels_ = pixel_rule_of(data_, *in_memory_);
  fingerprint_ = paceline::fingerprint(*in_memory_);
  if (!data_.mean_file.empty()) PACELINE_RETURN_IF_ERROR(take_mean_file());
  train_ = std::make_shared<const SamplesInMemory>(in_memory_, pixels_, options_);
  // Read again when it is needed. An hour into the run is no time to learn that it is missing.
  return read_cifar10_test(data_.path).status();
}

// In the place of the training set's own means. Every node must have the same.
Status RunData::take_mean_file() {
  const std::string expected = ", expected a binaryproto of 3x32x32";
  auto image = caffe::read_mean_file(data_.mean_file);
  if (!image.is_ok()) return Status(image.status()).with_context("data.mean_file");
  if (image->shape != Shape{3, 32, 32}) {
    return invalid_argument("data.mean_file: " + data_.mean_file + " of " + to_string(image->shape) +
                            ", expected a binaryproto of 3x32x32");
  }
  const auto bytes = std::as_bytes(std::span(image->values));
  fingerprint_ = fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, fingerprint_);
  pixels_.means = std::make_shared<const std::vector<float>>(std::move(image->values));
  return Status::ok();
}

Status RunData::open_pictures(const RunConfig& config, RunFolder run_folder) {
  std::error_code error;
  const bool has_folder =
      run_folder == RunFolder::kMayBeMade || std::filesystem::is_directory(config.run.out, error);
  PACELINE_ASSIGN_OR_RETURN(ImageFolder folder, open_image_folder(data_, has_folder ? config.run.out : "",
                                                                  ignored_label(config.train)));
  bad_ = std::make_shared<BadPictures>();
  fingerprint_ = folder.train->fingerprint();
  test_pictures_ = std::move(folder.test);
  warnings_ = std::move(folder.warnings);
  left_out_ = std::ssize(folder.left_out);
  if (data_.cache > 0) {
    // The test set's files lie after the training set's.
    const std::int64_t pictures = folder.train->size() + test_pictures_->size();
    const std::string key =
        hex(folder.train->fingerprint_of_files()) + hex(test_pictures_->fingerprint_of_files());
    auto cache = EncodedCache::open(fnv1a(key), pictures, data_.cache);
    if (cache.is_ok()) {
      cache_ = std::move(cache).value();
    } else {
      warnings_.push_back("no files are kept in memory (data.cache): " + cache.status().message());
    }
  }
  train_ = std::make_shared<const ImageSamples>(folder.train, data_, options_.seed, bad_,
                                                CachedFiles{cache_, 0}, parts_.nodes);
  constexpr std::size_t kNamedMax = 20;
  for (std::size_t i = 0; i < folder.left_out.size() && i < kNamedMax; ++i) {
    warnings_.push_back("picture " + folder.left_out[i] + "; it is left out");
  }
  if (folder.left_out.size() > kNamedMax) {
    warnings_.push_back(std::to_string(folder.left_out.size() - kNamedMax) + " more pictures are left out");
  }
  return Status::ok();
}

std::shared_ptr<const BatchMaker> RunData::maker(Images images) const {
  return std::make_shared<const BatchMaker>(train_, options_.seed, images, parts_);
}

Result<std::shared_ptr<const Samples>> RunData::test() const {
  using Set = std::shared_ptr<const Samples>;
  if (test_pictures_ != nullptr) {
    return Set(std::make_shared<const ImageSamples>(test_pictures_, data_, options_.seed, bad_,
                                                    CachedFiles{cache_, train_->size()}));
  }
  PACELINE_ASSIGN_OR_RETURN(DataSetPtr set, read_cifar10_test(data_.path));
  return Set(std::make_shared<const SamplesInMemory>(std::move(set), pixels_, BatchOptions{}));
}

Result<std::uint64_t> RunData::fingerprint_of_both() const {
  std::uint64_t test = 0;
  if (test_pictures_ != nullptr) {
    test = test_pictures_->fingerprint();
  } else {
    PACELINE_ASSIGN_OR_RETURN(const DataSetPtr set, read_cifar10_test(data_.path));
    test = paceline::fingerprint(*set);
  }
  return fnv1a(std::to_string(test), fnv1a(std::to_string(fingerprint_)));
}

std::int64_t RunData::samples_left_out() const { return left_out_ + (bad_ == nullptr ? 0 : bad_->count()); }

std::int64_t RunData::samples_left_out_by(NodeId node) const {
  const bool counted_by_another = data_.parts == DataParts::kFixed && node != NodeId(0);
  return samples_left_out() - (counted_by_another ? left_out_ : 0);
}

void RunData::warn_to(const std::function<void(const std::string&)>& warn) {
  for (const std::string& warning : warnings_) warn(warning);
  if (bad_ != nullptr) bad_->warn_to(warn);
}

Prediction predicted_batches(const RunConfig& config, WorkerId worker) {
  if (config.train.share == Share::kPool) return {};
  const Cluster cluster = config.cluster.cluster();
  const std::int64_t n = config.train.batch_size;
  const std::int64_t round = config.train.round_samples();
  return {{cluster.rank_of(worker).value * round, n}, cluster.workers() * round, config.train.local_steps};
}

}  // namespace paceline
