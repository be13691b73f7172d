// The generated data set: same seed, same bytes; readable as CIFAR-10; not for linear models; nothing
// half-written.
#include "worker/data/synthetic.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/unit/file_size_limit.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/batch_maker.h"
#include "worker/data/cifar10.h"
#include "worker/data/shapes.h"

namespace paceline {
namespace {

using Catch::Contains;
using testing::TempFolder;

const std::vector<std::string> kFiles = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin",
                                         "batches.meta.txt"};

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// FNV-1a (64 bit) over all files in order.
std::uint64_t hash_of(const std::filesystem::path& folder) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const std::string& file : kFiles) {
    for (const char byte : bytes_of(folder / file)) {
      hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3U;
    }
  }
  return hash;
}

SyntheticOptions small(const std::filesystem::path& out, std::uint64_t seed = 7) {
  return {.out = out, .train_samples = 52, .test_samples = 20, .seed = seed};
}

// A change of these bytes makes every run on generated data incomparable with those before it: it must be
// meant.
TEST_CASE("the_bytes_of_a_seed_stay_what_they_are") {
  const TempFolder folder;
  REQUIRE(write_synthetic(small(folder.path())).message() == "");
  CHECK(hash_of(folder.path()) == 0xBDE13DD25A5078CBU);
}

TEST_CASE("another_seed_draws_other_pictures_and_the_test_set_is_not_the_training_set") {
  const TempFolder folder;
  REQUIRE(write_synthetic(small(folder / "a", 1)).is_ok());
  REQUIRE(write_synthetic(small(folder / "b", 2)).is_ok());
  CHECK(hash_of(folder / "a") != hash_of(folder / "b"));
  const std::string train = bytes_of(folder / "a" / "data_batch_1.bin");
  CHECK(train.substr(0, kRecordSize) != bytes_of(folder / "a" / "test_batch.bin").substr(0, kRecordSize));
}

TEST_CASE("it_reads_back_as_CIFAR_10_balanced_with_the_names_of_its_classes") {
  const TempFolder folder;
  REQUIRE(write_synthetic(small(folder / "made" / "on" / "the" / "way")).is_ok());
  const auto train = read_cifar10_train(folder / "made" / "on" / "the" / "way");
  const auto held_out = read_cifar10_test(folder / "made" / "on" / "the" / "way");
  REQUIRE(train.is_ok());
  REQUIRE(held_out.is_ok());
  CHECK((*train)->size() == 52);
  CHECK((*held_out)->size() == 20);
  for (std::int64_t i = 0; i < 52; ++i) CHECK((*train)->labels[static_cast<std::size_t>(i)] == i % 10);
  CHECK_THAT(bytes_of(folder / "made" / "on" / "the" / "way" / "batches.meta.txt"),
             Catch::StartsWith("disc\nring\n") && Catch::EndsWith("two_discs\n"));
}

TEST_CASE("a_folder_that_holds_data_is_left_alone_unless_overwriting_is_allowed") {
  const TempFolder folder;
  std::ofstream(folder / "data_batch_3.bin") << "somebody's CIFAR-10";
  SyntheticOptions options = small(folder.path());
  const Status refused = write_synthetic(options);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("already holds data_batch_3.bin"));
  CHECK(bytes_of(folder / "data_batch_3.bin") == "somebody's CIFAR-10");
  options.overwrite = Overwrite::kAllow;
  CHECK(write_synthetic(options).is_ok());
  CHECK(read_cifar10_train(folder.path()).is_ok());
}

TEST_CASE("impossible_counts_and_an_empty_folder_name_are_refused") {
  const TempFolder folder;
  SyntheticOptions options = small(folder.path());
  options.train_samples = 4;
  CHECK_THAT(write_synthetic(options).message(), Contains("4 training samples, expected 5..1000000"));
  options = small(folder.path());
  options.test_samples = 0;
  CHECK_THAT(write_synthetic(options).message(), Contains("0 test samples, expected 1..1000000"));
  CHECK(write_synthetic(small("")).code() == StatusCode::kInvalidArgument);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a_folder_that_cannot_be_made_is_an_error_with_the_reason") {
  const TempFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const Status status = write_synthetic(small(folder / "file" / "data"));
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Contains("cannot make it: Not a directory"));
}

// The training files are of 31 to 34 kB, the test file is of 61 kB: it is the one that does not fit any more.
TEST_CASE("a_full_disk_is_an_error_with_file_and_reason_and_nothing_of_the_set_is_left") {
  const TempFolder folder;
  Status status;
  {
    const testing::FileSizeLimit limit(50'000);
    status = write_synthetic(small(folder.path()));
  }
  CHECK(status.code() == StatusCode::kResourceExhausted);
  CHECK_THAT(status.message(),
             Contains("synthetic data: cannot write") && Contains("test_batch.bin: File too large"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

// --- a linear model
// ---------------------------------------------------------------------------------------------

// The generator's pictures, in memory; `paint(image, label)` may change each.
template <typename Paint>
DataSet draw(Split split, std::int64_t samples, Paint paint) {
  DataSet set;
  set.labels.resize(static_cast<std::size_t>(samples));
  set.pixels.resize(static_cast<std::size_t>(samples * kImageSize));
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto label = static_cast<std::uint8_t>(i % kClasses);
    set.labels[static_cast<std::size_t>(i)] = label;
    const std::span image =
        std::span(set.pixels).subspan(static_cast<std::size_t>(i * kImageSize), kImageSize);
    draw_shape(1, split, i, label, image);
    paint(image, label);
  }
  return set;
}

// Test accuracy of softmax regression on the pixels, trained by plain SGD for a few epochs.
double linear_accuracy(const DataSet& train, const DataSet& held_out) {
  const Normalization normalization = normalization_of(train);
  std::vector<std::vector<float>> weights(kClasses, std::vector<float>(kImageSize, 0.0F));
  std::vector<float> x(kImageSize);
  const auto scores = [&](const DataSet& set, std::int64_t sample) {
    render(set.image(sample), {}, normalization, x);
    std::vector<double> result;
    for (const auto& w : weights) {
      float sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += w[i] * x[i];
      result.push_back(sum);
    }
    return result;
  };
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (std::int64_t sample = 0; sample < train.size(); ++sample) {
      std::vector<double> p = scores(train, sample);
      const double largest = *std::max_element(p.begin(), p.end());
      double total = 0;
      for (double& value : p) total += value = std::exp(value - largest);
      for (std::size_t c = 0; c < p.size(); ++c) {
        const double target = train.labels[static_cast<std::size_t>(sample)] == c ? 1.0 : 0.0;
        const auto step = static_cast<float>(1e-4 * (p[c] / total - target));
        for (std::size_t i = 0; i < x.size(); ++i) weights[c][i] -= step * x[i];
      }
    }
  }
  std::int64_t correct = 0;
  for (std::int64_t sample = 0; sample < held_out.size(); ++sample) {
    const std::vector<double> p = scores(held_out, sample);
    const auto best = std::max_element(p.begin(), p.end()) - p.begin();
    correct += best == held_out.labels[static_cast<std::size_t>(sample)];
  }
  return static_cast<double>(correct) / static_cast<double>(held_out.size());
}

// The control first: the same pictures with a white block at a place of the class's own, which a linear model
// does see.
TEST_CASE("a_linear_model_does_not_learn_the_classes_and_would_if_they_were_linear") {
  const auto mark = [](std::span<std::uint8_t> image, std::uint8_t label) {
    for (std::size_t row = 0; row < 8; ++row) {
      std::fill_n(image.begin() + static_cast<std::ptrdiff_t>(row * 32 + 3 * std::size_t{label}), 3, 255);
    }
  };
  const auto leave = [](std::span<std::uint8_t>, std::uint8_t) {};
  CHECK(linear_accuracy(draw(Split::kTrain, 1500, mark), draw(Split::kTest, 500, mark)) > 0.9);
  CHECK(linear_accuracy(draw(Split::kTrain, 1500, leave), draw(Split::kTest, 500, leave)) < 0.5);
}

}  // namespace
}  // namespace paceline
