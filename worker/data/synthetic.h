// The generated data set: ten classes of drawn shapes (worker/data/shapes.h) in CIFAR-10's binary format, so
// that every run is possible on a machine without internet. `paceline data synthesize` calls this.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/status.h"
#include "worker/data/data_set.h"

namespace paceline {

enum class Overwrite { kRefuse, kAllow };

// What to generate. Sample i has label i mod 10, so the classes are balanced in every prefix.
struct SyntheticOptions {
  std::filesystem::path out;           // folder; made, with its parents, when missing
  std::int64_t train_samples = 20000;  // spread over data_batch_1..5.bin; 5 .. 1,000,000
  std::int64_t test_samples = 4000;    // test_batch.bin; 1 .. 1,000,000
  std::uint64_t seed = 1;              // same seed and counts, same bytes, on every machine
  Overwrite overwrite =
      Overwrite::kRefuse;  // kRefuse protects a folder that holds data, real CIFAR-10 perhaps
};

// Writes data_batch_1..5.bin, batches.meta.txt (the class names) and, last, test_batch.bin into options.out.
// Every file is written whole or not at all (common/files/atomic_file.h), and after an error those written
// are removed again. Errors: kInvalidArgument an impossible count or an empty `out`; kFailedPrecondition the
// folder already holds data; kUnavailable not writable, kResourceExhausted disk full (each with file and
// reason).
Status write_synthetic(const SyntheticOptions& options);

}  // namespace paceline
