// The built-in task on GPUs: where its mini-batches are made makes no difference to a gradient. On a real GPU
// (gpu_test) and on the fake one (network_task_gpu_test).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/unit/model_fixture.h"
#include "tests/unit/temp_folder.h"
#include "worker/data/synthetic.h"
#include "worker/model/cuda/open_gpus.h"
#include "worker/network_task.h"

using namespace paceline;

namespace {

// What was said to back ends ahead of their steps, and that nobody wrote there while a GPU may read it.
struct Ahead {
  std::int64_t predicted = 0;
  std::int64_t came = 0;
  std::int64_t forgotten = 0;
  std::int64_t overwritten = 0;
};

class WatchedBackend final : public NetworkBackend {
 public:
  WatchedBackend(std::unique_ptr<NetworkBackend> backend, Ahead& ahead)
      : backend_(std::move(backend)), ahead_(ahead) {}
  ~WatchedBackend() override { compare(); }

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    const bool comes = !read_.empty() && read_.data() == batch.images.data();
    ahead_.came += comes;
    compare();
    if (comes) read_ = {};
    auto metric = backend_->gradient(parameters, batch, gradient, final_from);
    if (!noted_.empty()) keep(std::exchange(noted_, {}));
    return metric;
  }
  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    return backend_->evaluate(parameters, batch);
  }
  void predict(const Batch& next) override {
    ++ahead_.predicted;
    noted_ = next.images;
    backend_->predict(next);
  }
  Status forget() override {
    ahead_.forgotten += !read_.empty();
    compare();
    read_ = {};
    return backend_->forget();
  }

 private:
  void keep(std::span<const float> images) {
    read_ = images;
    was_.assign(images.begin(), images.end());
  }
  void compare() const { ahead_.overwritten += !std::equal(read_.begin(), read_.end(), was_.begin()); }

  const std::unique_ptr<NetworkBackend> backend_;
  Ahead& ahead_;
  std::span<const float> noted_;
  std::span<const float> read_;  // perhaps, by a GPU, and what was there
  std::vector<float> was_;
};

// Notes what is answered to who wants the data kept, and may say of itself that there is no room.
class AskedGpus final : public Gpus {
 public:
  AskedGpus(std::shared_ptr<Gpus> gpus, Kept room) : gpus_(std::move(gpus)), room_(room) {}
  Result<Kept> keep(const DataSet& set, const Normalization& normalization,
                    const BatchOptions& options) override {
    Result<Kept> kept = Kept::kNo;
    if (room_ == Kept::kYes) kept = gpus_->keep(set, normalization, options);
    answers.push_back(kept.value());
    return kept;
  }
  Result<ThreadOfGpu> for_thread(std::uint32_t index, NormGroup* norm_group) override {
    PACELINE_ASSIGN_OR_RETURN(ThreadOfGpu thread, gpus_->for_thread(index, norm_group));
    thread.make_backend = [make = thread.make_backend, this](
                              const NetworkSpec& network, std::int64_t batch_size,
                              std::uint64_t seed) -> Result<std::unique_ptr<NetworkBackend>> {
      PACELINE_ASSIGN_OR_RETURN(auto backend, make(network, batch_size, seed));
      return std::unique_ptr<NetworkBackend>(std::make_unique<WatchedBackend>(std::move(backend), ahead));
    };
    return thread;
  }
  std::shared_ptr<std::pmr::memory_resource> page_locked(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return gpus_->page_locked(std::move(upstream));
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override { return gpus_->pin(pages); }
  std::uint32_t device_of(std::uint32_t index) const override { return gpus_->device_of(index); }
  void warn_to(Warn warn) override { warn("as asked"); }

  std::vector<Kept> answers;
  Ahead ahead;

 private:
  const std::shared_ptr<Gpus> gpus_;
  const Kept room_;
};

RunConfig config_of(const std::filesystem::path& data) {
  RunConfig config;
  config.run.seed = 3;
  config.train.device = Device::kCuda;
  config.train.model = "layers";
  config.train.layers = {conv(2, 5, 2), relu(), pool(4), dropout(0.25), dense(10)};
  config.train.batch_size = 4;
  config.data.path = data;
  config.data.augment = true;
  return config;
}

// The generated set of 25 samples.
struct SmallData {
  testing::TempFolder folder;
  RunConfig config;

  SmallData() {
    SyntheticOptions synthetic;
    synthetic.out = folder.path() / "data";
    synthetic.train_samples = 25;
    synthetic.test_samples = 10;
    REQUIRE(write_synthetic(synthetic).is_ok());
    config = config_of(synthetic.out);
  }
};

// Computes the gradients of mini-batches, in turn, at the initial parameters.
class Trained {
 public:
  explicit Trained(TaskFactory& tasks) : parameters_(tasks.layout().size()) {
    tasks.initialize(parameters_);
    auto made = tasks.make_trainer(WorkerId(0, 0));
    INFO(made.status().message());
    REQUIRE(made.is_ok());
    trainer_ = std::move(made).value();
  }

  void load(const BatchPart& part) {
    Step step{};
    step.batch = part;
    REQUIRE(trainer_->load(step).is_ok());
  }
  std::vector<float> gradient_of(const BatchPart& part) {
    load(part);
    return gradient_of_loaded(part);
  }
  std::vector<float> gradient_of_loaded(const BatchPart& part) {
    std::vector<float> gradient(parameters_.size());
    const auto metric = trainer_->compute(parameters_, gradient, whole_at_the_end);
    INFO(metric.status().message());
    REQUIRE(metric.is_ok());
    CHECK(metric->samples == part.samples);
    return gradient;
  }
  const std::vector<float>& parameters() const { return parameters_; }

 private:
  std::vector<float> parameters_;
  std::unique_ptr<Task> trainer_;
};

// Four at a time one after another, as predicted; some smaller and larger ones, into the next epoch and on
// from there; and from elsewhere. With an evaluation.
const std::vector<BatchPart> kParts = {{0, 4},  {4, 4},  {8, 4},  {23, 3}, {27, 3}, {31, 3},
                                       {40, 4}, {44, 4}, {48, 5}, {52, 5}, {80, 4}, {84, 4}};

std::vector<float> gradients_of(TaskFactory& tasks) {
  Trained trained(tasks);
  std::vector<float> all;
  for (const BatchPart& part : kParts) {
    const std::vector<float> gradient = trained.gradient_of(part);
    all.insert(all.end(), gradient.begin(), gradient.end());
  }
  CHECK((*tasks.make_evaluator())->evaluate(trained.parameters())->samples == 10);
  return all;
}

}  // namespace

TEST_CASE("gradients_are_the_same_with_the_data_on_the_gpu_without_room_for_it_and_with_on_device_off") {
  SmallData data;
  RunConfig& config = data.config;
  // The same ones for all: on a GPU they have then the same algorithms.
  const auto gpus = cuda::open_gpus({});
  REQUIRE(gpus.is_ok());
  const auto train_with_room = [&](Kept room, const std::vector<Kept>& answers) {
    const auto asked = std::make_shared<AskedGpus>(*gpus, room);
    const auto tasks = make_network_tasks_on(asked, config);
    INFO(tasks.status().message());
    REQUIRE(tasks.is_ok());
    CHECK(asked->answers == answers);
    CHECK((*tasks)->computes_on(0) == "GPU 0");
    std::string warning;
    (*tasks)->warn_to([&](const std::string& what) { warning = what; });
    CHECK(warning == "as asked");
    return gradients_of(**tasks);
  };

  const std::vector<float> kept = train_with_room(Kept::kYes, {Kept::kYes});
  const std::vector<float> sent = train_with_room(Kept::kNo, {Kept::kNo});
  CHECK(std::memcmp(kept.data(), sent.data(), kept.size() * sizeof(float)) == 0);
  config.data.on_device = OnDevice::kOff;
  CHECK(train_with_room(Kept::kYes, {}) == sent);
}

// Until the loader's threads have been ahead often enough for each of the ways in which it goes on: while
// another one computes they have time to be.
TEST_CASE("mini_batches_that_the_loader_has_ready_are_predicted_and_stay_while_a_gpu_reads_them") {
  SmallData data;
  data.config.data.loader_threads = 2;
  data.config.train.accumulate = GENERATE(1, 2);  // whose parts are predicted, too
  const std::size_t sizes_kept = GENERATE(std::size_t{1}, std::size_t{2});
  const auto gpus = cuda::open_gpus({});
  REQUIRE(gpus.is_ok());
  const auto asked = std::make_shared<AskedGpus>(*gpus, Kept::kNo);
  const Ahead& ahead = asked->ahead;
  const auto with_data = make_network_tasks_on(std::make_shared<AskedGpus>(*gpus, Kept::kYes), data.config);
  REQUIRE(with_data.is_ok());
  Trained expected(**with_data);
  {
    const auto tasks = make_network_tasks_on(asked, data.config, sizes_kept);
    REQUIRE(tasks.is_ok());
    Trained trained(**tasks);
    std::int64_t position = 0;
    const auto go_on = [&](std::int64_t samples, std::int64_t further, const std::int64_t& until) {
      for (const std::int64_t before = until; until < before + 3; position += 4 + further) {
        REQUIRE(position < 1'000'000);
        const BatchPart part{position, samples};
        trained.load(part);
        const std::vector<float> gradient = expected.gradient_of(part);
        CHECK(trained.gradient_of_loaded(part) == gradient);
      }
    };
    go_on(4, 0, ahead.came);
    go_on(4, 20, ahead.forgotten);  // it is always another
    for (std::int64_t round = 0; round < 3; ++round) {
      go_on(4, 0, ahead.came);
      go_on(3, 0, ahead.came);  // by a back end of its own
    }
    // Loaded, but not computed.
    for (const std::int64_t before = ahead.forgotten; ahead.forgotten < before + 3; position += 8) {
      REQUIRE(position < 1'000'000);
      const BatchPart part{position, 4};
      trained.load(part);
      static_cast<void>(expected.gradient_of(part));
      static_cast<void>(trained.gradient_of_loaded(part));
      trained.load({position + 4, 4});
    }
  }
  CHECK(ahead.predicted >= ahead.came + ahead.forgotten);
  CHECK(ahead.overwritten == 0);
}

TEST_CASE("a_trainer_in_float16_says_its_loss_scale_and_goes_on_with_the_one_that_it_is_told") {
  SmallData data;
  data.config.train.precision = Precision::kFp16;
  const std::int64_t parts = data.config.train.accumulate = GENERATE(1, 2);  // each is a step of the scale's
  const auto gpus = cuda::open_gpus({{}, Precision::kFp16});
  REQUIRE(gpus.is_ok());
  const auto tasks = make_network_tasks_on(*gpus, data.config);
  REQUIRE(tasks.is_ok());
  CHECK_FALSE((*tasks)->trainers_are_alike());
  std::vector<float> parameters((*tasks)->layout().size());
  (*tasks)->initialize(parameters);
  std::vector<float> gradient(parameters.size());
  const auto trainer = (*tasks)->make_trainer(WorkerId(0, 0));
  REQUIRE(trainer.is_ok());
  const auto scale_after = [&](std::int64_t position, const LossScale& received) {
    Step step{};
    step.batch = {position, 4};
    step.loss_scale = received;
    REQUIRE((*trainer)->load(step).is_ok());
    REQUIRE((*trainer)->compute(parameters, gradient, whole_at_the_end).is_ok());
    return (*trainer)->loss_scale();
  };
  const LossScale first = scale_after(0, {});
  CHECK((first.scale >= 1.0 && first.good_steps == parts));
  CHECK(scale_after(4, {}) == LossScale{first.scale, 2 * parts});
  CHECK(scale_after(8, {512.0, 1997}) == LossScale{512.0, 1997 + parts});
  CHECK(scale_after(12, {512.0, 1999}) == LossScale{1024.0, parts - 1});
}
