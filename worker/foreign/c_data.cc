// include/paceline/data.h over RunData and its loader.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "include/paceline/data.h"
#include "worker/data/batch.h"
#include "worker/data/batch_maker.h"
#include "worker/data/loader.h"
#include "worker/foreign/c_calls.h"
#include "worker/run_data.h"

// Not in a namespace without a name: paceline_data, which has one for the linker, holds them.
namespace paceline {

// More is a mistake, and would be found by memory that there is not.
constexpr std::int64_t kSamplesMax = 1 << 20;
constexpr std::int64_t kPositionMax = std::int64_t{1} << 60;

class FreeBatches;

// What a caller holds: its public part says where the rest is.
struct OwnedBatch : paceline_batch {
  OwnedBatch() : paceline_batch{} {}
  void show() {
    wide_labels.assign(made.labels.begin(), made.labels.end());
    images = made.images.data();
    labels = wide_labels.data();
    indices = made.samples.data();
    samples = made.size;
  }

  MiniBatch made;
  std::vector<std::int64_t> wide_labels;
  std::shared_ptr<FreeBatches> home;  // while it is held
};

// Mini-batches that were given back, to be filled again. Thread: any.
class FreeBatches {
 public:
  FreeBatches() { free_.reserve(kKept); }  // so that giving back asks for no memory

  std::unique_ptr<OwnedBatch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<OwnedBatch>();
    std::unique_ptr<OwnedBatch> batch = std::move(free_.back());
    free_.pop_back();
    return batch;
  }
  void give_back(std::unique_ptr<OwnedBatch> batch) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < kKept) free_.push_back(std::move(batch));
  }

 private:
  static constexpr std::size_t kKept = 4;
  std::mutex mutex_;
  std::vector<std::unique_ptr<OwnedBatch>> free_;
};

// Lines that nobody has read yet. Thread: any.
class Warnings {
 public:
  void add(const std::string& line) {
    constexpr std::size_t kKept = 1000;
    const std::lock_guard lock(mutex_);
    if (lines_.size() == kKept) lines_.pop_front();
    lines_.push_back(line);
  }
  bool take(std::string& line) {
    const std::lock_guard lock(mutex_);
    if (lines_.empty()) return false;
    line = std::move(lines_.front());
    lines_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> lines_;
};

}  // namespace paceline

using namespace paceline;

struct paceline_data {
  paceline_data(RunConfig the_config, RunData the_data, std::shared_ptr<const Samples> the_test, NodeId node)
      : config(std::move(the_config)),
        data(std::move(the_data)),
        test(std::move(the_test)),
        predicted(predicted_batches(config, WorkerId(node, 0))) {
    data.warn_to([to = warnings](const std::string& line) { to->add(line); });
    loader = std::make_unique<Loader>(data.maker(), LoaderOptions{.threads = config.data.loader_threads,
                                                                  .prefetch = config.data.prefetch_batches});
    queue = std::make_unique<BatchQueue>(loader->open(predicted));
  }

  const RunConfig config;
  RunData data;
  const std::shared_ptr<const Samples> test;
  const Prediction predicted;
  const std::shared_ptr<Warnings> warnings = std::make_shared<Warnings>();
  const std::shared_ptr<FreeBatches> batches = std::make_shared<FreeBatches>();
  std::unique_ptr<Loader> loader;
  std::unique_ptr<BatchQueue> queue;
};

namespace {

Status open_data(const paceline_options* options, paceline_data** data) {
  if (data == nullptr) return invalid_argument("paceline_data_open: got no place for the data");
  *data = nullptr;
  PACELINE_ASSIGN_OR_RETURN(RunConfig config, config_of(options, "paceline_data_open", LoadFor::kReading));
  PACELINE_RETURN_IF_ERROR(check_one_worker(config));
  const NoSignals none;
  PACELINE_ASSIGN_OR_RETURN(RunData opened, RunData::open(config, RunFolder::kMayBeMade));
  PACELINE_ASSIGN_OR_RETURN(auto test, opened.test());
  *data = std::make_unique<paceline_data>(std::move(config), std::move(opened), std::move(test),
                                          NodeId(options->node))
              .release();
  return Status::ok();
}

paceline_about_data about_of(const paceline_data& data) {
  const DataSection& section = data.config.data;
  const bool of_pictures = data.data.in_memory() == nullptr;
  const std::int64_t side = of_pictures ? section.crop.size : kImageSide;
  return {.train_samples = data.data.train()->size(),
          .test_samples = data.test->size(),
          .channels = kImageChannels,
          .height = side,
          .width = side,
          .classes = of_pictures ? section.classes : kClasses,
          .left_out = data.data.samples_left_out(),
          .batch = data.config.train.batch_size,
          .position = data.predicted.first.position,
          .stride = data.predicted.stride,
          .in_a_row = data.predicted.in_a_row};
}

// `fill` puts a mini-batch into a MiniBatch.
Status hold(const paceline_data& data, const std::function<Status(MiniBatch&)>& fill,
            paceline_batch** batch) {
  std::unique_ptr<OwnedBatch> held = data.batches->take();
  PACELINE_RETURN_IF_ERROR(fill(held->made));
  held->show();
  held->home = data.batches;
  *batch = held.release();
  return Status::ok();
}

Status out_of_range(const char* of_call, std::int64_t first, std::int64_t samples,
                    const std::string& expected) {
  return invalid_argument(std::string(of_call) + ": got " + std::to_string(samples) + " samples from " +
                          std::to_string(first) + " on, expected " + expected);
}

}  // namespace

paceline_code paceline_data_open(const paceline_options* options, paceline_data** data) {
  return guarded([&] { return open_data(options, data); });
}

paceline_code paceline_data_about(paceline_data* data, paceline_about_data* about) {
  return guarded([&] {
    *about = about_of(*data);
    return PACELINE_OK;
  });
}

paceline_code paceline_data_train(paceline_data* data, std::int64_t position, std::int64_t samples,
                                  paceline_batch** batch) {
  return guarded([&]() -> Status {
    *batch = nullptr;
    if (position < 0 || position > kPositionMax || samples < 1 || samples > kSamplesMax) {
      return out_of_range(
          "paceline_data_train", position, samples,
          "1 to " + std::to_string(kSamplesMax) + ", from 0 to " + std::to_string(kPositionMax) + " on");
    }
    return hold(*data, [&](MiniBatch& into) { return data->queue->take({position, samples}, into); }, batch);
  });
}

paceline_code paceline_data_test(paceline_data* data, std::int64_t first, std::int64_t samples,
                                 paceline_batch** batch) {
  return guarded([&]() -> Status {
    *batch = nullptr;
    if (first < 0 || first >= data->test->size() || samples < 1) {
      return out_of_range("paceline_data_test", first, samples,
                          "at least one, from one of " + std::to_string(data->test->size()) + " on");
    }
    const auto fill = [&](MiniBatch& into) {
      return make_evaluation_batch(*data->test, first, std::min(samples, data->test->size() - first), into);
    };
    return hold(*data, fill, batch);
  });
}

void paceline_batch_release(paceline_batch* batch) {
  if (batch == nullptr) return;
  std::unique_ptr<OwnedBatch> held(static_cast<OwnedBatch*>(batch));
  const std::shared_ptr<FreeBatches> home = std::move(held->home);
  home->give_back(std::move(held));
}

const char* paceline_data_warning(paceline_data* data) {
  thread_local std::string line;
  return data->warnings->take(line) ? line.c_str() : nullptr;
}

void paceline_data_close(paceline_data* data) { delete data; }
