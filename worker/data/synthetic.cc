// Writes the generated data set; see synthetic.h.
#include "worker/data/synthetic.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "worker/data/cifar10.h"
#include "worker/data/shapes.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTrainFiles = 5;  // as many as CIFAR-10 has
constexpr const char* kTestFile = "test_batch.bin";
constexpr std::int64_t kSamplesMax = 1'000'000;  // 3 GB; one file is made in memory

// Samples [first, end) of `split`, as the content of a file.
std::vector<std::uint8_t> records_of(std::uint64_t seed, Split split, std::int64_t first, std::int64_t end) {
  std::vector<std::uint8_t> records(static_cast<std::size_t>((end - first) * kRecordSize));
  for (std::int64_t sample = first; sample < end; ++sample) {
    const auto label = static_cast<std::uint8_t>(sample % kClasses);
    const std::span record =
        std::span(records).subspan(static_cast<std::size_t>((sample - first) * kRecordSize), kRecordSize);
    record[0] = label;
    draw_shape(seed, split, sample, label, record.subspan(1));
  }
  return records;
}

Status check(const SyntheticOptions& options) {
  if (options.out.empty()) return invalid_argument("no output folder given");
  if (options.train_samples < kTrainFiles || options.train_samples > kSamplesMax) {
    return invalid_argument(std::to_string(options.train_samples) +
                            " training samples, expected 5..1000000 (one per file at least)");
  }
  if (options.test_samples < 1 || options.test_samples > kSamplesMax) {
    return invalid_argument(std::to_string(options.test_samples) + " test samples, expected 1..1000000");
  }
  return Status::ok();
}

fs::path train_file(const fs::path& folder, std::int64_t number) {
  return folder / ("data_batch_" + std::to_string(number) + ".bin");
}

Status prepare_folder(const SyntheticOptions& options) {
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) {
    return unavailable("data folder '" + options.out.string() + "': cannot make it: " + error.message());
  }
  if (options.overwrite == Overwrite::kAllow) return Status::ok();
  std::vector<fs::path> targets = {options.out / kTestFile};
  for (std::int64_t n = 1; n <= kTrainFiles; ++n) targets.push_back(train_file(options.out, n));
  for (const fs::path& target : targets) {
    if (fs::exists(target, error)) {
      return failed_precondition("data folder '" + options.out.string() + "' already holds " +
                                 target.filename().string() + "; choose another folder or pass --force");
    }
  }
  return Status::ok();
}

// Writes one file after another, remembering them, the test batch last: without it nobody takes the folder
// for a data set (read_cifar10_test).
Status write_files(const SyntheticOptions& options, std::vector<fs::path>& written) {
  const auto write = [&written](fs::path file, std::span<const std::byte> content) {
    const Status status = write_file_atomically(file, {content});
    if (status.is_ok()) written.push_back(std::move(file));
    return status;
  };
  std::string names;
  for (const char* name : kShapeNames) names += std::string(name) + "\n";
  PACELINE_RETURN_IF_ERROR(write(options.out / "batches.meta.txt", std::as_bytes(std::span(names))));
  for (std::int64_t n = 1; n <= kTrainFiles; ++n) {
    const std::int64_t first = options.train_samples * (n - 1) / kTrainFiles;
    const std::int64_t end = options.train_samples * n / kTrainFiles;
    const auto records = records_of(options.seed, Split::kTrain, first, end);
    PACELINE_RETURN_IF_ERROR(write(train_file(options.out, n), std::as_bytes(std::span(records))));
  }
  const auto records = records_of(options.seed, Split::kTest, 0, options.test_samples);
  return write(options.out / kTestFile, std::as_bytes(std::span(records)));
}

}  // namespace

Status write_synthetic(const SyntheticOptions& options) {
  PACELINE_RETURN_IF_ERROR(check(options));
  PACELINE_RETURN_IF_ERROR(prepare_folder(options));
  std::vector<fs::path> written;
  Status status = write_files(options, written);
  if (!status.is_ok()) {
    std::error_code ignored;  // the reason to report is the first one
    for (const fs::path& file : written) fs::remove(file, ignored);
  }
  return std::move(status).with_context("synthetic data");
}

}  // namespace paceline
