// Mini-batches and the loader: what is handed over is always what BatchMaker makes, however it came about.
#include "worker/data/loader.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "common/random.h"

namespace paceline {
namespace {

constexpr std::uint64_t kSeed = 11;

// Sample i has label i mod 10 and every pixel i mod 256, so that a mini-batch shows what it holds.
DataSetPtr tiny_set(std::int64_t samples) {
  auto set = std::make_shared<DataSet>();
  for (std::int64_t i = 0; i < samples; ++i) {
    set->labels.push_back(static_cast<std::uint8_t>(i % kClasses));
    set->pixels.insert(set->pixels.end(), kImageSize, static_cast<std::uint8_t>(i % 256));
  }
  return set;
}

std::shared_ptr<const BatchMaker> tiny_maker(Augment augment = Augment::kYes) {
  const DataSetPtr set = tiny_set(50);
  return std::make_shared<BatchMaker>(set, normalization_of(*set), BatchOptions{augment, kSeed});
}

// With mini-batches of one size n.
BatchPart iteration_of(std::int64_t n, std::int64_t iteration) { return {iteration * n, n}; }
Prediction every(std::int64_t n, std::int64_t first, std::int64_t stride) {
  return {iteration_of(n, first), stride * n};
}

bool equal(const MiniBatch& a, const MiniBatch& b) {
  return a.size == b.size && a.images == b.images && a.labels == b.labels && a.samples == b.samples &&
         a.epochs == b.epochs;
}

// Thread: any; Catch's checks are for one at a time.
bool is_part(const MiniBatch& batch, const BatchMaker& maker, const BatchPart& part) {
  MiniBatch expected;
  return maker.make(part, expected).is_ok() && equal(batch, expected);
}

TEST_CASE("a_mini_batch_holds_the_samples_of_the_sampler_and_may_cross_into_the_next_epoch") {
  const auto maker = tiny_maker(Augment::kNo);
  const Sampler sampler(50, kSeed);
  MiniBatch batch;
  REQUIRE(maker->make({48, 8}, batch).is_ok());  // positions 48 .. 55 of epochs of 50
  REQUIRE(batch.size == 8);
  CHECK(batch.epochs == std::vector<std::int64_t>{0, 0, 1, 1, 1, 1, 1, 1});
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(batch.samples[i] == sampler.at(48 + static_cast<std::int64_t>(i)).sample);
    CHECK(batch.labels[i] == batch.samples[i] % kClasses);
    CHECK(batch.images[i * kImageSize] == batch.images[(i + 1) * kImageSize - 1]);  // one colour: not cropped
  }
}

// docs/SYNC.md, What is reproducible, with augmentation: four workers' mini-batches of clock 3 are one
// worker's four-fold one.
TEST_CASE("the_augmented_mini_batches_of_K_workers_are_the_K_fold_one_of_one_worker_bit_for_bit") {
  const auto maker = tiny_maker();
  MiniBatch together;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    MiniBatch part;
    REQUIRE(maker->make({3 * 16 + rank * 4, 4}, part).is_ok());
    together.size += part.size;
    together.images.insert(together.images.end(), part.images.begin(), part.images.end());
    together.labels.insert(together.labels.end(), part.labels.begin(), part.labels.end());
    together.samples.insert(together.samples.end(), part.samples.begin(), part.samples.end());
    together.epochs.insert(together.epochs.end(), part.epochs.begin(), part.epochs.end());
  }
  CHECK(is_part(together, *maker, {48, 16}));
}

TEST_CASE("evaluation_reads_the_set_in_order_the_last_batch_being_what_is_left") {
  const DataSetPtr set = tiny_set(10);
  const Normalization normalization = normalization_of(*set);
  MiniBatch batch;
  make_evaluation_batch(*set, normalization, 0, 8, batch);
  CHECK(batch.samples == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  make_evaluation_batch(*set, normalization, 8, 8, batch);
  CHECK(batch.size == 2);
  CHECK(batch.labels == std::vector<Label>{8, 9});
  CHECK(batch.images.size() == 2 * static_cast<std::size_t>(kImageSize));
  CHECK(batch.images[0] == (8.0F - normalization.mean[0]) * normalization.scale[0]);
}

// Sorted by class, as folders of pictures are, or the classes in turn: 100 samples of each of ten.
TEST_CASE("some_samples_of_a_test_set_are_spread_over_it_and_the_same_each_time") {
  const bool is_sorted = GENERATE(true, false);
  auto set = std::make_shared<DataSet>();
  for (int i = 0; i < 1000; ++i)
    set->labels.push_back(static_cast<std::uint8_t>(is_sorted ? i / 100 : i % 10));
  set->pixels.resize(1000 * kImageSize);
  const SamplesInMemory samples(set, normalization_of(*set), {});
  const auto evaluated = [&](std::int64_t of) {
    std::vector<std::int64_t> seen;
    MiniBatch batch;
    for (std::int64_t first = 0; first < of; first += 64) {
      REQUIRE(make_evaluation_batch(samples, of, first, 64, batch).is_ok());
      CHECK(batch.size == std::min<std::int64_t>(64, of - first));
      seen.insert(seen.end(), batch.samples.begin(), batch.samples.end());
    }
    return seen;
  };
  const std::vector<std::int64_t> some = evaluated(200);
  REQUIRE(some.size() == 200);
  CHECK(evaluated(200) == some);
  std::vector<int> of_class(10);
  for (std::size_t place = 0; place < some.size(); ++place) {
    CHECK(some[place] / 5 == static_cast<std::int64_t>(place));  // each a fifth
    ++of_class[set->labels[static_cast<std::size_t>(some[place])]];
  }
  for (const int count : of_class) CHECK((is_sorted ? count == 20 : count >= 10));
  std::vector<std::int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  CHECK(evaluated(1000) == all);
}

TEST_CASE("images_that_are_left_out_are_all_that_a_mini_batch_lacks") {
  const DataSetPtr set = tiny_set(50);
  const BatchOptions options{Augment::kYes, kSeed};
  const BatchMaker maker(set, normalization_of(*set), options, Images::kLeftOut);
  MiniBatch expected;
  MiniBatch batch;
  REQUIRE(tiny_maker()->make({48, 8}, expected).is_ok());
  REQUIRE(tiny_maker()->make({0, 9}, batch).is_ok());  // which had images
  REQUIRE(maker.make({48, 8}, batch).is_ok());
  CHECK(batch.images.empty());
  batch.images = expected.images;
  CHECK(equal(batch, expected));
}

TEST_CASE("two_workers_on_two_loader_threads_get_exactly_their_iterations") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 2, .prefetch = 3});
  std::vector<std::int64_t> wrong(2, 0);
  std::vector<std::thread> workers;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      BatchQueue queue = loader.open(every(4, rank, 2));
      for (std::int64_t clock = 0; clock < 200; ++clock) {
        const BatchPart part = iteration_of(4, clock * 2 + rank);
        const auto batch = queue.next(part);
        wrong[static_cast<std::size_t>(rank)] += !batch.is_ok() || !is_part(**batch, *maker, part);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  CHECK(wrong == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("what_is_taken_stays_as_it_is_while_later_mini_batches_are_made") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 2, .prefetch = 2});
  BatchQueue queue = loader.open(every(4, 0, 1));
  std::vector<MiniBatch> taken(6);
  for (std::int64_t i = 0; i < 6; ++i) {
    REQUIRE(queue.take(iteration_of(4, i), taken[static_cast<std::size_t>(i)]).is_ok());
  }
  for (std::int64_t i = 0; i < 6; ++i) {
    CHECK(is_part(taken[static_cast<std::size_t>(i)], *maker, iteration_of(4, i)));
  }
  loader.stop();
  CHECK(queue.take(iteration_of(4, 6), taken[0]).code() == StatusCode::kAborted);
  CHECK(is_part(taken[0], *maker, iteration_of(4, 0)));
}

// `share: pool`: the next iteration is anybody's guess.
TEST_CASE("iterations_nobody_predicted_are_right_all_the_same") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 2, .prefetch = 2});
  BatchQueue queue = loader.open(every(2, 0, 3));
  CounterRandom random(kSeed, Stream::kTest);
  std::int64_t iteration = 0;
  for (int step = 0; step < 500; ++step) {
    const auto batch = queue.next(iteration_of(2, iteration));
    REQUIRE(batch.status().message() == "");
    REQUIRE(is_part(**batch, *maker, iteration_of(2, iteration)));
    iteration += random.next_below(2) == 0 ? 3 : static_cast<std::int64_t>(random.next_below(7));
  }
  const LoaderCounts counts = queue.counts();
  CHECK(counts.ready + counts.waited + counts.on_demand == 500);
  CHECK(counts.on_demand > 0);
}

// Rounds of three mini-batches of 4, then of two: each said to be the so-manieth of so many.
TEST_CASE("a_row_may_be_longer_or_shorter_than_the_one_before") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 1, .prefetch = 1});
  BatchQueue queue = loader.open({{0, 4}, 24, 3});
  std::int64_t made_by_itself = 0;
  for (std::int64_t round = 0; round < 60; ++round) {
    const std::int64_t of = round < 30 ? 3 : 2;
    for (std::int64_t place = 0; place < of; ++place) {
      const BatchPart part{round * 24 + place * 4, 4};
      const LoaderCounts before = queue.counts();
      const auto batch = queue.next(part, InRow{place, of});
      REQUIRE(batch.is_ok());
      REQUIRE(is_part(**batch, *maker, part));
      made_by_itself += queue.counts().on_demand - before.on_demand;
      // The only mini-batch that is made ahead is the one that comes.
      const BatchPart next =
          place + 1 < of ? BatchPart{part.position + 4, 4} : BatchPart{(round + 1) * 24, 4};
      std::optional<ReadyBatch> ready;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!(ready = queue.following())) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        std::this_thread::yield();
      }
      REQUIRE(ready->part == next);
    }
  }
  CHECK(made_by_itself <= 1);  // the first, if its thread was late
}

// Rounds of at most six that end by time: after three, three, six and two. A row that was left early says where the
// next one is left.
TEST_CASE("behind_a_row_that_was_left_early_the_next_row_is_ahead") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 1, .prefetch = 1});
  BatchQueue queue = loader.open({{0, 4}, 24, 6});
  const std::int64_t lengths[] = {3, 3, 6, 2, 2};
  const auto ahead = [&](const BatchPart& part) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::optional<ReadyBatch> ready;
    while (!(ready = queue.following())) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::yield();
    }
    return ready->part == part;
  };
  for (std::int64_t round = 0; round < 5; ++round) {
    const std::int64_t last = lengths[round] - 1;
    for (std::int64_t place = 0; place <= last; ++place) {
      REQUIRE(queue.next({round * 24 + place * 4, 4}, InRow{place, 6}).is_ok());
      const bool left_here_before = round > 0 && place + 1 == lengths[round - 1];
      const BatchPart next_row{(round + 1) * 24, 4};
      CAPTURE(round, place);
      CHECK(ahead(left_here_before || place + 1 == 6 ? next_row : BatchPart{round * 24 + place * 4 + 4, 4}));
    }
  }
}

// Balanced batches: the size, and with it the place within the clock, changes now and then. The mini-batch
// that follows is made anew, and those after it are made ahead as before.
TEST_CASE("a_changed_size_is_made_anew_and_the_ones_behind_it_are_ahead_again") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 1, .prefetch = 2});
  BatchQueue queue = loader.open({{8, 8}, 24});  // the second of three with 8 each
  const BatchPart sizes[] = {{8, 8}, {4, 16}, {8, 8}, {12, 8}};
  std::int64_t clock = 0;
  for (const BatchPart& size : sizes) {
    const LoaderCounts before = queue.counts();
    // The loader's thread is ahead sooner or later, however busy the machine is.
    for (bool ahead = false; !ahead; ++clock) {
      REQUIRE(clock < 100'000);
      const BatchPart part{clock * 24 + size.position, size.samples};
      const auto batch = queue.next(part);
      REQUIRE(batch.is_ok());
      REQUIRE(is_part(**batch, *maker, part));
      const LoaderCounts now = queue.counts();
      ahead = now.ready + now.waited > before.ready + before.waited;
    }
    if (&size == sizes) continue;
    CHECK(queue.counts().on_demand > before.on_demand);
  }
}

TEST_CASE("without_loader_threads_or_without_a_prediction_the_asking_thread_makes_its_own_mini_batch") {
  const auto maker = tiny_maker();
  for (const LoaderOptions& options : {LoaderOptions{.threads = 0}, LoaderOptions{.threads = 1}}) {
    Loader loader(maker, options);
    BatchQueue queue = loader.open(every(2, 0, options.threads == 0 ? 1 : 0));
    for (std::int64_t iteration = 0; iteration < 5; ++iteration) {
      const auto batch = queue.next(iteration_of(2, iteration));
      REQUIRE(batch.is_ok());
      CHECK(is_part(**batch, *maker, iteration_of(2, iteration)));
    }
    CHECK(queue.counts().on_demand == 5);
  }
}

TEST_CASE("the_steady_state_fills_the_same_memory_again") {
  const auto maker = tiny_maker();
  constexpr std::uint32_t kPrefetch = 2;
  Loader loader(maker, {.threads = 1, .prefetch = kPrefetch});
  BatchQueue queue = loader.open(every(4, 0, 1));
  std::set<const float*> memory;
  for (std::int64_t iteration = 0; iteration < 100; ++iteration) {
    const auto batch = queue.next(iteration_of(4, iteration));
    REQUIRE(batch.is_ok());
    memory.insert((*batch)->images.data());
  }
  CHECK(memory.size() <= kPrefetch + 1);
}

// Two workers in rounds of three mini-batches of 4: [0, 12) [24, 36) ..., and [12, 24) [36, 48) ...
TEST_CASE("the_mini_batches_of_a_round_follow_one_another_and_then_comes_the_worker_s_next_round") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 1, .prefetch = 2});
  BatchQueue queue = loader.open({{12, 4}, 24, 3});
  for (std::int64_t place = 0; place < 60; ++place) {
    const BatchPart part{12 + place / 3 * 24 + place % 3 * 4, 4};
    const auto batch = queue.next(part);
    REQUIRE(batch.is_ok());
    REQUIRE(is_part(**batch, *maker, part));
    const BatchPart next{12 + (place + 1) / 3 * 24 + (place + 1) % 3 * 4, 4};
    std::optional<ReadyBatch> following;
    for (int tries = 0; !following && tries < 1'000'000; ++tries) {
      following = queue.following();
      std::this_thread::yield();
    }
    REQUIRE(following);
    CHECK(following->part == next);
  }
  const LoaderCounts counts = queue.counts();
  CHECK(counts.ready >= 59);  // the first may have been asked for before it was there
}

// As a GPU that is sent the next mini-batch ahead.
TEST_CASE("the_mini_batch_that_follows_is_seen_once_it_is_ready_and_is_what_comes") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 2, .prefetch = 2});
  BatchQueue queue = loader.open(every(4, 0, 3));
  CHECK_FALSE(queue.following());  // nothing has been given out that something could follow
  std::int64_t iteration = 0;
  for (int seen = 0; seen < 20; iteration += 3) {
    REQUIRE(iteration < 300'000);
    REQUIRE(queue.next(iteration_of(4, iteration)).is_ok());
    const auto following = queue.following();
    if (!following) continue;  // the loader's threads are ahead sooner or later
    ++seen;
    CHECK(following->part == iteration_of(4, iteration + 3));
    CHECK(is_part(*following->batch, *maker, following->part));
    iteration += 3;
    const auto batch = queue.next(following->part);
    REQUIRE(batch.is_ok());
    CHECK(*batch == following->batch);
  }
}

TEST_CASE("nothing_follows_where_nothing_is_predicted_or_made_ahead") {
  const auto maker = tiny_maker();
  for (const LoaderOptions& options : {LoaderOptions{.threads = 0}, LoaderOptions{.threads = 1}}) {
    Loader loader(maker, options);
    BatchQueue queue = loader.open(every(2, 0, options.threads == 0 ? 1 : 0));
    for (std::int64_t iteration = 0; iteration < 5; ++iteration) {
      REQUIRE(queue.next(iteration_of(2, iteration)).is_ok());
      CHECK_FALSE(queue.following());
    }
    loader.stop();
    REQUIRE_FALSE(queue.next(iteration_of(2, 5)).is_ok());
    CHECK_FALSE(queue.following());
  }
}

// Two workers who look at what follows while the loader's threads make other mini-batches, until something
// else comes.
TEST_CASE("what_follows_stays_as_it_is_until_the_next_call_whatever_is_made_meanwhile") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 3, .prefetch = 3});
  std::vector<std::int64_t> wrong(2, 0);
  std::vector<std::int64_t> seen(2, 0);
  std::vector<std::thread> workers;
  for (std::size_t rank = 0; rank < wrong.size(); ++rank) {
    workers.emplace_back([&, rank] {
      BatchQueue queue = loader.open(every(4, static_cast<std::int64_t>(rank), 2));
      CounterRandom random(kSeed, Stream::kTest, rank);
      auto iteration = static_cast<std::int64_t>(rank);
      for (int step = 0; step < 100'000 && seen[rank] < 100; ++step) {
        const BatchPart part = iteration_of(4, iteration);
        const auto batch = queue.next(part);
        const auto following = queue.following();
        wrong[rank] += !batch.is_ok() || !is_part(**batch, *maker, part);
        seen[rank] += following.has_value();
        wrong[rank] += following && !is_part(*following->batch, *maker, following->part);
        iteration += random.next_below(4) == 0 ? 6 : 2;
      }
    });
  }
  for (auto& worker : workers) worker.join();
  CHECK(wrong == std::vector<std::int64_t>{0, 0});
  CHECK(seen == std::vector<std::int64_t>{100, 100});
}

// A memory that counts what is held of it.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::int64_t held() const { return held_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++held_;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    --held_;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  std::atomic<std::int64_t> held_{0};
};

TEST_CASE("images_lie_in_the_memory_that_was_given_and_go_back_there_with_the_last_who_holds_them") {
  const auto memory = std::make_shared<CountedMemory>();
  constexpr std::uint32_t kPrefetch = 2;
  auto loader = std::make_unique<Loader>(
      tiny_maker(), LoaderOptions{.threads = 2, .prefetch = kPrefetch, .memory = memory});
  {
    BatchQueue queue = loader->open(every(4, 0, 1));
    for (std::int64_t iteration = 0; iteration < 100; ++iteration) {
      const auto batch = queue.next(iteration_of(4, iteration));
      REQUIRE(batch.is_ok());
      CHECK((*batch)->images.get_allocator().resource() == memory.get());
    }
    CHECK(memory->held() > 0);
    CHECK(memory->held() <= kPrefetch + 1);
    loader.reset();
    CHECK(memory->held() > 0);  // of mini-batches that were handed out
  }
  CHECK(memory->held() == 0);
  CHECK(memory.use_count() == 1);
}

TEST_CASE("a_stopped_loader_refuses_also_after_it_is_gone_and_what_was_handed_out_stays") {
  const auto maker = tiny_maker();
  auto loader = std::make_unique<Loader>(maker, LoaderOptions{});
  BatchQueue asks_after_stop = loader->open(every(4, 0, 2));
  BatchQueue keeps = loader->open(every(4, 1, 2));
  const auto kept = keeps.next(iteration_of(4, 1));
  REQUIRE(kept.is_ok());
  loader->stop();
  CHECK(asks_after_stop.next(iteration_of(4, 0)).status().code() == StatusCode::kAborted);
  loader.reset();
  CHECK(is_part(**kept, *maker, iteration_of(4, 1)));
  CHECK(keeps.next(iteration_of(4, 3)).status().code() == StatusCode::kAborted);
}

// Workers that ask without end, until stop() ends every one of them: a waiter left behind would hang the
// test.
TEST_CASE("stop_releases_workers_in_the_middle_of_their_work") {
  const auto maker = tiny_maker();
  Loader loader(maker, {.threads = 1, .prefetch = 4});
  std::mutex mutex;
  std::condition_variable all_started;
  int started = 0;
  std::vector<StatusCode> ends(4, StatusCode::kOk);
  std::vector<std::thread> workers;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    workers.emplace_back([&, rank] {
      BatchQueue queue = loader.open(every(16, static_cast<std::int64_t>(rank), 4));
      for (auto iteration = static_cast<std::int64_t>(rank);; iteration += 4) {
        const auto batch = queue.next(iteration_of(16, iteration));
        if (!batch.is_ok()) {
          ends[rank] = batch.status().code();
          return;
        }
        if (iteration == static_cast<std::int64_t>(rank)) {
          const std::lock_guard lock(mutex);
          ++started;
          all_started.notify_one();
        }
      }
    });
  }
  {
    std::unique_lock lock(mutex);
    all_started.wait(lock, [&] { return started == 4; });
  }
  loader.stop();
  for (auto& worker : workers) worker.join();
  CHECK(ends == std::vector<StatusCode>(4, StatusCode::kAborted));
}

}  // namespace
}  // namespace paceline
