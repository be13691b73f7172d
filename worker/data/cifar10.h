// Reads CIFAR-10's binary format: data_batch_<n>.bin (training) and test_batch.bin, records of one label byte
// and 3072 pixel bytes (the red plane, the green, the blue; each row by row) and nothing else. The generated
// data set (worker/data/synthetic.h) has the same format, so one reader serves every `data.kind`.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/status.h"
#include "worker/data/data_set.h"

namespace paceline {

inline constexpr std::int64_t kRecordSize = 1 + kImageSize;  // bytes

// CIFAR-10 itself: so many training files, and so many records in each and in test_batch.bin.
inline constexpr std::int64_t kCifar10Batches = 5;
inline constexpr std::int64_t kCifar10Records = 10'000;

// That `folder` holds CIFAR-10 itself (data.kind: cifar10), all of it, by the number and the size of its
// files: a file that did not arrive, or was cut between two records, is no other fault that a reader would
// see. Errors: kNotFound a file is missing; kDataLoss one has another size; kInvalidArgument there are more.
Status check_whole_cifar10(const std::filesystem::path& folder);

// The training set: every data_batch_<n>.bin of `folder`, one after another in the order of their numbers.
// Errors: kNotFound no such folder, no data_batch_<n>.bin in it (the message says what is there
// instead, if that is well known, and how to get them), or a gap
// in their numbers, which are 1 .. n; kInvalidArgument a data_batch_*.bin whose * is not a number or one that
// is there twice; and those of read_cifar10_file.
Result<DataSetPtr> read_cifar10_train(const std::filesystem::path& folder);

// The test set, test_batch.bin of `folder`. Errors: as above.
Result<DataSetPtr> read_cifar10_test(const std::filesystem::path& folder);

// Appends the records of one file to `set`, which is left as it was on an error.
// Errors: kNotFound missing; kUnavailable not readable, with the reason; kDataLoss empty, a size that is not
// a multiple of 3073 (truncated), or a label > 9 (with its record).
Status read_cifar10_file(const std::filesystem::path& file, DataSet& set);

}  // namespace paceline
