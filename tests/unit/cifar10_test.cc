// CIFAR-10's binary format: what is read, and what is refused with which words.
#include "worker/data/cifar10.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

using Catch::Contains;
using testing::TempFolder;

// A record whose label and first and last pixel can be recognised.
std::string record(int label, int first_pixel = 1, int last_pixel = 2) {
  std::string bytes(kRecordSize, '\0');
  bytes[0] = static_cast<char>(label);
  bytes[1] = static_cast<char>(first_pixel);
  bytes[kRecordSize - 1] = static_cast<char>(last_pixel);
  return bytes;
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST_CASE("the_training_batches_follow_each_other_in_the_order_of_their_numbers") {
  const TempFolder folder;
  write(folder / "data_batch_1.bin", record(1) + record(2, 200, 255));
  for (int n = 2; n <= 9; ++n) {
    write(folder / ("data_batch_" + std::to_string(n) + ".bin"), record(0));
  }
  write(folder / "data_batch_10.bin", record(3));
  write(folder / "test_batch.bin", record(9));

  const auto train = read_cifar10_train(folder.path());
  REQUIRE(train.status().message() == "");
  CHECK((*train)->labels == std::vector<std::uint8_t>{1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3});
  CHECK((*train)->image(1).front() == 200);
  CHECK((*train)->image(1).back() == 255);
  CHECK((*train)->image(2).front() == 1);
  const auto held_out = read_cifar10_test(folder.path());
  REQUIRE(held_out.is_ok());
  CHECK((*held_out)->labels == std::vector<std::uint8_t>{9});
}

TEST_CASE("a_missing_folder_is_named_with_the_way_to_get_data") {
  const auto train = read_cifar10_train("/no/such/folder");
  REQUIRE(train.status().code() == StatusCode::kNotFound);
  CHECK_THAT(train.status().message(), Contains("'/no/such/folder' does not exist"));
  CHECK_THAT(train.status().message(), Contains("paceline data synthesize --out DIR"));
}

TEST_CASE("a_file_in_the_place_of_the_folder_is_refused") {
  const TempFolder folder;
  write(folder / "data", "x");
  const auto train = read_cifar10_train(folder / "data");
  REQUIRE(train.status().code() == StatusCode::kNotFound);
  CHECK_THAT(train.status().message(), Contains("is not a folder"));
}

TEST_CASE("a_folder_without_batches_is_refused_and_so_is_one_without_a_test_batch") {
  const TempFolder folder;
  const auto train = read_cifar10_train(folder.path());
  REQUIRE(train.status().code() == StatusCode::kNotFound);
  CHECK_THAT(train.status().message(), Contains("holds no data_batch_<n>.bin"));
  const auto held_out = read_cifar10_test(folder.path());
  REQUIRE(held_out.status().code() == StatusCode::kNotFound);
  CHECK_THAT(held_out.status().message(), Contains("test_batch.bin' does not exist"));
}

TEST_CASE("what_else_a_folder_may_hold_is_named") {
  for (const auto& [name, reported] : std::vector<std::pair<std::string, std::string>>{
           {"cifar-10-batches-bin/data_batch_1.bin", "data.path is to be its folder cifar-10-batches-bin"},
           {"cifar-10-batches-py/data_batch_1", "cifar-10-batches-py is not CIFAR-10's binary version"},
           {"data_batch_1", "CIFAR-10's Python version"},
           {"fine_label_names.txt", "CIFAR-100"},
           {"cifar-10-binary.tar.gz", "not unpacked"}}) {
    const TempFolder folder;
    std::filesystem::create_directories((folder / name).parent_path());
    write(folder / name, "x");
    CHECK_THAT(read_cifar10_train(folder.path()).status().message(),
               Contains("holds no data_batch_<n>.bin: ") && Contains(reported));
  }
}

TEST_CASE("of_cifar10_itself_a_file_that_is_missing_or_cut_between_records_is_named") {
  const TempFolder folder;
  const auto make = [&](const std::string& name, std::int64_t records) {
    write(folder / name, "");
    std::filesystem::resize_file(folder / name, static_cast<std::uintmax_t>(records * kRecordSize));
  };
  for (const int n : {1, 2, 3, 4}) make("data_batch_" + std::to_string(n) + ".bin", kCifar10Records);
  make("test_batch.bin", kCifar10Records);
  CHECK_THAT(check_whole_cifar10(folder.path()).message(), Contains("data_batch_5.bin'"));
  make("data_batch_5.bin", kCifar10Records - 1);
  CHECK_THAT(check_whole_cifar10(folder.path()).message(),
             Contains("data_batch_5.bin': got 30726927 bytes, expected 30730000"));
  make("data_batch_5.bin", kCifar10Records);
  CHECK(check_whole_cifar10(folder.path()).is_ok());
  make("data_batch_6.bin", 1);
  CHECK_THAT(check_whole_cifar10(folder.path()).message(), Contains("data_batch_6.bin'"));
}

TEST_CASE("a_batch_whose_number_is_none_is_refused_rather_than_left_out") {
  const TempFolder folder;
  write(folder / "data_batch_1.bin", record(0));
  write(folder / "data_batch_1 (copy).bin", record(0));
  const auto train = read_cifar10_train(folder.path());
  REQUIRE(train.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(train.status().message(), Contains("got '1 (copy)' where a number is expected"));
}

TEST_CASE("a_batch_that_is_missing_or_there_twice_is_named") {
  const TempFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_4.bin"}) {
    write(folder / name, record(0));
  }
  const auto gap = read_cifar10_train(folder.path());
  REQUIRE(gap.status().code() == StatusCode::kNotFound);
  CHECK_THAT(gap.status().message(), Contains("got data_batch_4.bin, expected data_batch_3.bin before it"));
  write(folder / "data_batch_3.bin", record(0));
  CHECK(read_cifar10_train(folder.path()).is_ok());
  write(folder / "data_batch_03.bin", record(0));
  const auto twice = read_cifar10_train(folder.path());
  REQUIRE(twice.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(twice.status().message(), Contains("both data_batch_03.bin and data_batch_3.bin are number 3"));
}

TEST_CASE("a_set_with_another_label_pixel_size_or_order_has_another_fingerprint") {
  const auto of = [](const std::string& records) {
    const TempFolder folder;
    write(folder / "data_batch_1.bin", records);
    return fingerprint(**read_cifar10_train(folder.path()));
  };
  const std::uint64_t first = of(record(1, 5) + record(2));
  CHECK(of(record(1, 5) + record(2)) == first);
  CHECK(of(record(1, 5) + record(3)) != first);
  CHECK(of(record(1, 6) + record(2)) != first);
  CHECK(of(record(2) + record(1, 5)) != first);
  CHECK(of(record(1, 5)) != first);
}

TEST_CASE("a_truncated_file_is_refused_with_its_size_and_the_sizes_it_could_have") {
  const TempFolder folder;
  write(folder / "data_batch_1.bin", (record(0) + record(1)).substr(0, 5000));
  const auto train = read_cifar10_train(folder.path());
  REQUIRE(train.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(train.status().message(), Contains("data_batch_1.bin': got 5000 bytes"));
  CHECK_THAT(train.status().message(), Contains("(3073 or 6146)"));
}

TEST_CASE("an_empty_file_is_refused") {
  const TempFolder folder;
  write(folder / "test_batch.bin", "");
  const auto held_out = read_cifar10_test(folder.path());
  REQUIRE(held_out.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(held_out.status().message(), Contains("is empty"));
}

TEST_CASE("a_label_above_nine_is_refused_with_its_record_and_nothing_of_that_file_is_kept") {
  const TempFolder folder;
  write(folder / "good.bin", record(9));
  write(folder / "bad.bin", record(0) + record(10));
  DataSet set;
  REQUIRE(read_cifar10_file(folder / "good.bin", set).is_ok());
  const Status bad = read_cifar10_file(folder / "bad.bin", set);
  REQUIRE(bad.code() == StatusCode::kDataLoss);
  CHECK_THAT(bad.message(), Contains("bad.bin', record 1: label 10, expected 0..9"));
  CHECK(set.size() == 1);
  CHECK(set.pixels.size() == static_cast<std::size_t>(kImageSize));
}

}  // namespace
}  // namespace paceline
