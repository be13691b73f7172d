// A training set that back ends on a GPU have themselves, and the mini-batches that the loader makes of it.
#pragma once

#include "tests/unit/cuda_fixture.h"
#include "worker/data/batch_maker.h"

namespace paceline {

inline Batch view(const MiniBatch& batch) {
  return {batch.images, batch.labels, batch.samples, batch.epochs};
}
inline Batch without_images(const MiniBatch& batch) {
  return {{}, batch.labels, batch.samples, batch.epochs};
}

struct ResidentFixture {
  BatchOptions options;
  DataSetPtr data;
  Normalization normalization;

  // Samples of noise.
  ResidentFixture(std::int64_t samples, const BatchOptions& how) : options(how) {
    auto set = std::make_shared<DataSet>();
    CounterRandom random(how.seed, Stream::kTest, 4);
    for (std::int64_t i = 0; i < samples; ++i) {
      set->labels.push_back(static_cast<std::uint8_t>(random.next_below(kClasses)));
      for (std::int64_t j = 0; j < kImageSize; ++j) {
        set->pixels.push_back(static_cast<std::uint8_t>(random.next_u32()));
      }
    }
    data = std::move(set);
    normalization = normalization_of(*data);
  }

  MiniBatch made(const BatchPart& part) const {
    MiniBatch batch;
    REQUIRE(BatchMaker(data, normalization, options).make(part, batch).is_ok());
    return batch;
  }

  std::unique_ptr<NetworkBackend> backend(const NetworkSpec& network, std::int64_t batch_size,
                                          Precision precision = Precision::kFp32) const {
    const auto gpus = cuda::open_gpus({{}, precision});
    INFO(gpus.status().message());
    REQUIRE(gpus.is_ok());
    const auto kept = (*gpus)->keep(*data, normalization, options);
    INFO(kept.status().message());
    REQUIRE(kept.is_ok());
    REQUIRE(*kept == Kept::kYes);
    const auto make = (*gpus)->for_thread(0, nullptr);
    REQUIRE(make.is_ok());
    auto backend = make->make_backend(network, batch_size, 5);
    INFO(backend.status().message());
    REQUIRE(backend.is_ok());
    return std::move(backend).value();
  }
};

}  // namespace paceline
