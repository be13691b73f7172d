// Mini-batches of pictures: the same whoever makes them, from files or from the cache of files.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "common/hex.h"
#include "tests/unit/encoded_pictures.h"
#include "tests/unit/pets.h"
#include "worker/data/loader.h"
#include "worker/images/image_samples.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using testing::Pets;
using testing::put_picture;

MiniBatch made(const BatchMaker& maker, const BatchPart& part) {
  MiniBatch batch;
  REQUIRE(maker.make(part, batch).is_ok());
  return batch;
}
bool equal(const MiniBatch& a, const MiniBatch& b) {
  return a.images == b.images && a.labels == b.labels && a.samples == b.samples && a.epochs == b.epochs;
}

TEST_CASE(
    "mini_batches_are_the_same_to_the_bit_with_one_or_four_threads_one_or_two_nodes_and_after_a_resume") {
  for (const CropKind kind : {CropKind::kArea, CropKind::kPlace}) {
    Pets pets;
    pets.data.augment = true;
    pets.data.crop.kind = kind;
    constexpr std::int64_t kBatch = 3;
    constexpr int kSteps = 12;  // four and a half epochs
    const BatchMaker plain(pets.samples(), 11);
    // Two nodes, each with its own loader: every second mini-batch is one's.
    for (const std::uint32_t threads : {1U, 4U}) {
      for (std::int64_t node = 0; node < 2; ++node) {
        Loader loader(std::make_shared<BatchMaker>(pets.samples(), 11), {.threads = threads, .prefetch = 3});
        // It resumes at the fifth.
        const std::int64_t first = threads == 4 ? 4 + node : node;
        BatchQueue queue = loader.open({{first * kBatch, kBatch}, 2 * kBatch});
        for (std::int64_t step = first; step < kSteps; step += 2) {
          const auto batch = queue.next({step * kBatch, kBatch});
          REQUIRE(batch.is_ok());
          CHECK(equal(**batch, made(plain, {step * kBatch, kBatch})));
        }
      }
    }
    // Another epoch shows other parts of the same pictures.
    std::set<std::vector<float>> seen;
    for (int epoch = 0; epoch < 4; ++epoch) {
      std::vector<float> image(3 * 16 * 16);
      REQUIRE(pets.samples()->train({epoch, 2}, image).is_ok());
      seen.insert(image);
    }
    CHECK(seen.size() == 4);
  }
}

TEST_CASE("with_fixed_parts_a_node_reads_no_picture_of_another_one_s_and_all_of_its_own") {
  const Pets pets;
  std::set<std::int64_t> seen;
  for (std::int64_t node = 0; node < 2; ++node) {
    const Pets mine;
    const auto list = mine.open().value().train;
    for (std::int64_t i = 1 - node; i < list->size(); i += 2) fs::remove(list->path(i));  // the other one's
    const auto bad = std::make_shared<BadPictures>();
    const auto samples = std::make_shared<ImageSamples>(list, mine.data, 11, bad);
    const auto maker = std::make_shared<BatchMaker>(samples, 11, Images::kRendered,
                                                    FixedParts{.nodes = 2, .workers = 1, .round = 3});
    Loader loader(maker, {.threads = 2, .prefetch = 2});
    BatchQueue queue = loader.open({{3 * node, 3}, 6});
    for (std::int64_t step = node; step < 12; step += 2) {
      const auto batch = queue.next({3 * step, 3});
      REQUIRE(batch.is_ok());
      seen.insert((*batch)->samples.begin(), (*batch)->samples.end());
    }
    CHECK(bad->count() == 0);
  }
  CHECK(std::ssize(seen) == pets.open().value().train->size());
}

TEST_CASE("fused_and_whole_decoding_give_the_same_samples") {
  Pets pets;
  pets.data.augment = true;
  const MiniBatch fused = made(BatchMaker(pets.samples(), 11), {0, 16});
  pets.data.decode = DecodeKind::kWhole;
  CHECK(equal(made(BatchMaker(pets.samples(), 11), {0, 16}), fused));
}

TEST_CASE("a_sample_is_the_picture_s_centre_normalised_and_turned") {
  Pets pets;
  pets.data.crop = {.size = 2, .resize = 2};
  pets.data.mean = {0, 10, 20};
  pets.data.deviation = {1, 2, 4};
  // Two colours beside each other, which Exif turns so that they lie one above the other.
  fs::remove_all(pets.at("train"));
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < 2; ++y) {
    for (const int level : {100, 200}) pixels.insert(pixels.end(), 3, static_cast<std::uint8_t>(level));
  }
  put_picture(pets.at("train/cat/a.jpg"),
              jpeg_of(2, 2, pixels, {.across = 1, .down = 1, .quality = 100, .orientation = 6}));
  put_picture(pets.at("train/dog/a.png"), png_of(2, 2, pixels));
  const auto samples = pets.samples();
  std::vector<float> turned(12);
  std::vector<float> plain(12);
  REQUIRE(samples->train({0, 0}, turned).is_ok());
  REQUIRE(samples->train({0, 1}, plain).is_ok());
  CHECK(plain == std::vector<float>{100, 200, 100, 200, 45, 95, 45, 95, 20, 45, 20, 45});
  for (std::size_t i = 0; i < 12; i += 4) {
    CHECK(std::abs(turned[i] - plain[i]) <= 1);
    CHECK(std::abs(turned[i + 1] - plain[i]) <= 1);
    CHECK(std::abs(turned[i + 2] - plain[i + 1]) <= 1);
  }
}

TEST_CASE("a_picture_that_breaks_while_training_goes_is_named_once_and_the_next_takes_its_place") {
  Pets pets;
  const auto bad = std::make_shared<BadPictures>();
  std::vector<std::string> warnings;
  bad->warn_to([&](const std::string& warning) { warnings.push_back(warning); });
  const auto samples = pets.samples(bad);
  std::vector<float> next(3 * 16 * 16);
  REQUIRE(samples->train({0, 3}, next).value() == 3);
  put_picture(pets.at("train/cat/2.jpg"), {1, 2, 3});  // it becomes shorter
  std::vector<float> image(3 * 16 * 16);
  CHECK(samples->train({0, 2}, image).value() == 3);
  CHECK(samples->train({1, 2}, image).value() == 3);
  CHECK(image == next);
  CHECK(bad->count() == 1);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::StartsWith("picture " + pets.at("train/cat/2.jpg").string() +
                                            " is left out: it has 3 bytes"));
  MiniBatch batch;
  REQUIRE(make_evaluation_batch(*samples, 0, 8, batch).is_ok());
  CHECK(batch.size == 7);
  CHECK(batch.samples == std::vector<std::int64_t>{0, 1, 3, 4, 5, 6, 7});

  pets.data.on_bad = OnBad::kFail;
  const ImageSamples strict(samples->list(), pets.data, 11, bad);
  CHECK_THAT(strict.train({0, 2}, image).status().message(), Catch::EndsWith("(data.on_bad: fail)"));
  Loader loader(
      std::make_shared<BatchMaker>(std::make_shared<ImageSamples>(samples->list(), pets.data, 11, bad), 11),
      {});
  BatchQueue queue = loader.open({{0, 8}, 8});
  CHECK(queue.next({0, 8}).status().code() == StatusCode::kDataLoss);

  fs::remove_all(pets.at("train"));
  CHECK_THAT(samples->train({0, 0}, image).status().message(),
             Catch::StartsWith("8 pictures one after another"));
}

TEST_CASE("files_are_kept_once_for_all_who_open_the_cache_up_to_its_bytes_and_go_with_the_last") {
  const auto key = static_cast<std::uint64_t>(::getpid());
  const Encoded one(1000, 1);
  const Encoded two(2000, 2);
  const auto same = [](const auto& found, const Encoded& file) {
    return found.has_value() && std::equal(found->begin(), found->end(), file.begin(), file.end());
  };
  {
    const auto first = EncodedCache::open(key, 3, 3500).value();
    const auto second = EncodedCache::open(key, 3, 3500).value();
    CHECK_FALSE(first->find(0).has_value());
    first->keep(0, one);
    second->keep(0, two);  // somebody else has it
    second->keep(1, two);
    CHECK(same(second->find(0), one));
    CHECK(same(first->find(1), two));
    first->keep(2, one);  // no room
    CHECK_FALSE(second->find(2).has_value());
    CHECK(first->bytes() >= 3000);
    CHECK_FALSE(EncodedCache::open(key, 3, 3600).value()->find(0).has_value());  // another cache
  }
  CHECK_FALSE(EncodedCache::open(key, 3, 3500).value()->find(0).has_value());
  CHECK(EncodedCache::open(key, 3, 0).is_ok());
}

TEST_CASE("a_cache_that_others_could_write_is_not_used") {
  const auto key = static_cast<std::uint64_t>(::getpid()) << 8;
  const auto ours = EncodedCache::open(key, 3, 3500).value();
  const fs::path file = "/dev/shm/paceline-images-" + std::to_string(::getuid()) + "-" + hex(key) + "-3500";
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  CHECK_THAT(EncodedCache::open(key, 3, 3500).status().message(),
             Catch::EndsWith("is not this user's alone, expected a file of mode 0600"));
}

TEST_CASE("samples_from_the_cache_are_those_from_the_files_also_when_the_files_are_gone") {
  Pets pets;
  const auto list = pets.open().value().train;
  const auto bad = std::make_shared<BadPictures>();
  const auto cache = EncodedCache::open(static_cast<std::uint64_t>(::getpid()), 10, 1 << 20).value();
  const auto cached = std::make_shared<ImageSamples>(list, pets.data, 11, bad, CachedFiles{cache, 2});
  const MiniBatch plain = made(BatchMaker(pets.samples(), 11), {0, 8});
  CHECK(equal(made(BatchMaker(cached, 11), {0, 8}), plain));
  CHECK(cache->bytes() == list->bytes_of_all());
  fs::remove_all(pets.at("train"));
  CHECK(equal(made(BatchMaker(cached, 11), {0, 8}), plain));
}

}  // namespace
}  // namespace paceline
