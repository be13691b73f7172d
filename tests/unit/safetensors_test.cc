// Safetensors: what is written is read back, what others write is read, and each way of being broken is told apart.
// (tests/process/daemons/formats_test.py asks the format's own package.)
#include "common/params/safetensors.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "common/files/atomic_file.h"
#include "common/params/init_from.h"
#include "common/random.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/mutate.h"
#include "tests/unit/temp_folder.h"

using namespace paceline;
using Catch::Contains;
using testing::TempFolder;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

Result<Safetensors> read(const std::string& bytes) {
  const TempFolder folder;
  REQUIRE(write_file_atomically(folder / "a.safetensors", bytes));
  return read_safetensors(folder / "a.safetensors");
}

std::string why(const std::string& header, const std::string& data) {
  const auto file = read(file_of(header, data));
  CHECK(file.status().code() == StatusCode::kDataLoss);
  CHECK_THAT(file.status().message(), Contains("a.safetensors: "));
  return file.status().message();
}

const std::string kTwo = R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";

}  // namespace

TEST_CASE("a_model_written_as_safetensors_is_read_back_in_the_order_of_its_layout") {
  ModelInfo info{"tiny", Version(40), Revision(77), {}};
  REQUIRE(info.layout.add("z.weight", {2, 3}));
  REQUIRE(info.layout.add("a.running_mean", {2}, {TensorRole::kBuffer, 0.1, 1.0}));
  const std::vector<float> parameters = {1, 2, 3, 4, 5, 6, -0.5F, 1e-30F};
  const TempFolder folder;
  REQUIRE(write_safetensors(folder / "a.safetensors", info, parameters));
  const auto file = read_safetensors(folder / "a.safetensors");
  REQUIRE(file.is_ok());
  const auto& tensors = file->model.info.layout.tensors();
  REQUIRE(tensors.size() == 2);
  CHECK((tensors[0].name == "z.weight" && tensors[0].shape == std::vector<std::int64_t>{2, 3}));
  CHECK(tensors[1].name == "a.running_mean");
  CHECK(file->model.parameters == parameters);
  CHECK(file->left_out.empty());
  // The tensors are aligned.
  std::uint64_t length = 0;
  std::memcpy(&length, read_file(folder / "a.safetensors", 1 << 20).value().data(), sizeof length);
  CHECK(length % 8 == 0);
}

TEST_CASE("a_name_that_safetensors_cannot_have_is_refused_and_nothing_is_written") {
  const TempFolder folder;
  for (const std::string name : {"__metadata__", "w\xff"}) {
    ModelInfo info{"tiny", Version(1), Revision(1), {}};
    REQUIRE(info.layout.add(name, {1}));
    const Status written = write_safetensors(folder / "a.safetensors", info, std::vector<float>{1.0F});
    CHECK(written.code() == StatusCode::kInvalidArgument);
    CHECK_THAT(written.message(),
               Contains(name == "w\xff" ? R"(tensor "w\ufffd": )" : R"(tensor "__metadata__": )"));
    CHECK_FALSE(std::filesystem::exists(folder / "a.safetensors"));
  }
}

TEST_CASE("bfloat16_is_widened_and_integers_are_left_out_by_name") {
  const std::array<std::uint16_t, 2> halves{0x3fc0, 0xc000};  // 1.5, -2
  std::string data(12, '\1');
  std::memcpy(data.data() + 8, halves.data(), 4);
  const auto file = read(file_of(R"({"b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
      "__metadata__": {"by": "others"}, "count": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}})",
                                 data));
  REQUIRE(file.is_ok());
  CHECK(file->model.parameters == std::vector<float>{1.5F, -2.0F});
  CHECK(file->left_out == std::vector<std::string>{"count I64 []"});
}

TEST_CASE("a_run_begins_with_the_tensors_of_a_safetensors_file_that_fit") {
  Layout layout;
  REQUIRE(layout.add("w", {2}));
  REQUIRE(layout.add("v", {1}));
  const TempFolder folder;
  for (const char* name : {"a.safetensors", "a.st"}) {  // the latter is one by how it begins
    REQUIRE(write_file_atomically(folder / name, file_of(kTwo, std::string(8, '\0'))));
    std::vector<float> parameters(3, 7.0F);
    const auto taken = take_parameters(folder / name, layout, parameters);
    REQUIRE(taken.is_ok());
    CHECK(parameters == std::vector<float>{0.0F, 0.0F, 7.0F});
    CHECK(to_string(*taken) == "1 of 2 tensors fit; drawn from run.seed: v [1]");
  }
  REQUIRE(write_file_atomically(folder / "weights", "neither of them"));
  std::vector<float> parameters(3);
  CHECK_THAT(take_parameters(folder / "weights", layout, parameters).status().message(),
             Contains("it does not begin with PACELIN1, nor as a safetensors file"));
}

TEST_CASE("a_broken_safetensors_file_says_what_is_wrong_with_it") {
  CHECK_THAT(why(kTwo, std::string(7, '\0')), Contains("truncated: 7 bytes after its header, expected 8"));
  CHECK_THAT(why(kTwo, std::string(9, '\0')), Contains("too long: 9 bytes after its header, expected 8"));
  CHECK_THAT(why("no JSON", ""), Contains("its header cannot be read"));
  CHECK_THAT(why("[1]", ""), Contains("its header cannot be read"));
  CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [2]}})", ""), Contains("its header cannot be read"));
  CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0]}})", ""),
             Contains("tensor 'w' has 1 offsets, expected 2"));
  CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", std::string(8, '\0')),
             Contains("tensor 'w' has 8 bytes, expected as many as its shape says"));
  CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}})", std::string(8, '\0')),
             Contains("tensor 'w' ends before it begins"));
  // Sizes whose product no number holds, and negative ones.
  CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", ""),
             Contains("expected as many as its shape says"));
  CHECK_THAT(
      why(R"({"w": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}})", std::string(8, '\0')),
      Contains("tensor 'w': got -1 among its sizes and offsets, expected whole numbers from 0 on"));
  for (const std::string other : {"0.5", "true", "-8", "null", "\"0\""}) {
    CHECK_THAT(why(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [)" + other + ", 8]}}",
                   std::string(8, '\0')),
               Contains("tensor 'w': got " + other + " among its sizes and offsets"));
  }
  // Bytes of two tensors, and bytes of none.
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"v": {"dtype": "U8", "shape": [4], "data_offsets": [)" + first +
           R"(]}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [)" + second + "]}}";
  };
  CHECK(read(file_of(two("4, 8", "0, 4"), std::string(8, '\0'))).is_ok());
  CHECK_THAT(why(two("0, 8", "4, 8"), std::string(8, '\0')),
             Contains("tensor 'w' begins at 4, expected 8, where the tensor before it ends"));
  CHECK_THAT(why(two("0, 4", "8, 12"), std::string(12, '\0')),
             Contains("tensor 'w' begins at 8, expected 4"));
  CHECK_THAT(why(two("8, 12", "4, 8"), std::string(12, '\0')),
             Contains("tensor 'w' begins at 4, expected 0"));
  // A header of 2^64 - 1 bytes is a lie about the file, not a wish for memory.
  CHECK_THAT(read(std::string(8, '\xff') + "{}").status().message(), Contains("cut, or no safetensors"));
  CHECK_THAT(read("short").status().message(), Contains("cut, or no safetensors: 5 bytes"));
  const TempFolder folder;
  CHECK(read_safetensors(folder / "none.safetensors").status().code() == StatusCode::kNotFound);
}

TEST_CASE("whatever_bytes_a_safetensors_file_has_it_is_read_or_refused_by_name") {
  const std::string good = file_of(R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                                   R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})",
                                   std::string(14, '\1'));
  int accepted = 0;
  constexpr int kRounds = 5000;
  for (int round = 0; round < kRounds; ++round) {
    CounterRandom random(1, Stream::kTest, static_cast<std::uint64_t>(round));
    std::string bytes = good;
    testing::mutate(bytes, random);
    const testing::MemoryFile memory(bytes);
    const auto file = read_safetensors(memory.path());
    INFO("round " << round);
    if (file.is_ok()) {
      ++accepted;
      REQUIRE(std::ssize(file->model.parameters) == file->model.info.layout.size());
    } else {
      REQUIRE_THAT(file.status().message(), Contains(memory.path().string()));
    }
  }
  CHECK((accepted > kRounds / 100 && accepted < kRounds / 2));
}
