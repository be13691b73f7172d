// The model file: what is written is read back, and each way of being broken is told apart.
#include "common/params/model_file.h"

#include <catch2/catch.hpp>

#include "common/files/atomic_file.h"
#include "common/params/init_from.h"
#include "tests/unit/temp_folder.h"

using namespace paceline;
using Catch::Contains;
using testing::TempFolder;

namespace {

ModelInfo small_model() {
  ModelInfo info{"tiny", Version(40), Revision(77), {}};
  REQUIRE(info.layout.add("fc.weight", {2, 3}));
  REQUIRE(info.layout.add("fc.bias", {2}));
  return info;
}

const std::vector<float> kParameters = {1, 2, 3, 4, 5, 6, -0.5F, 1e-30F};

// A model file's bytes after `change`, read back.
template <typename Change>
Status status_after(const Change& change) {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  std::string bytes = read_file(folder / "model.bin", 1 << 20).value();
  change(bytes);
  REQUIRE(write_file_atomically(folder / "model.bin", bytes));
  return read_model_file(folder / "model.bin").status();
}

}  // namespace

TEST_CASE("a_model_is_read_back_as_it_was_written") {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  const auto model = read_model_file(folder / "model.bin");
  REQUIRE(model.is_ok());
  CHECK(model->info.model == "tiny");
  CHECK(model->info.version == Version(40));
  CHECK(model->info.revision == Revision(77));
  CHECK(model->info.layout.hash() == small_model().layout.hash());
  CHECK(model->parameters == kParameters);
}

TEST_CASE("traits_that_are_not_the_usual_ones_are_in_the_header") {
  const TempFolder folder;
  ModelInfo info = small_model();
  const std::string usual = [&] {
    REQUIRE(write_model_file(folder / "usual.bin", info, kParameters));
    return read_file(folder / "usual.bin", 1 << 20).value();
  }();
  CHECK(usual.find("role") == std::string::npos);
  REQUIRE(info.layout.add("bn.scale", {1}, {TensorRole::kNorm, 0.5, 0.0}));
  std::vector<float> parameters = kParameters;
  parameters.push_back(1.0F);
  REQUIRE(write_model_file(folder / "model.bin", info, parameters));
  const auto model = read_model_file(folder / "model.bin");
  REQUIRE(model.is_ok());
  CHECK(model->info.layout.tensors()[1].traits == usual_traits("fc.bias"));
  CHECK(model->info.layout.tensors()[2].traits == TensorTraits{TensorRole::kNorm, 0.5, 0.0});
  // Another network, though names and shapes agree.
  ModelInfo plain = small_model();
  REQUIRE(plain.layout.add("bn.scale", {1}));
  CHECK_THAT(require_layout(*model, plain.layout, "model.bin").message(),
             Contains("tensor 2 is bn.scale [1] as norm with learning rate x 0.500000 and decay x 0.000000, "
                      "expected bn.scale [1]"));
}

TEST_CASE("parameters_begin_at_a_multiple_of_64_and_end_the_file") {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  const std::string bytes = read_file(folder / "model.bin", 1 << 20).value();
  CHECK(bytes.substr(0, 8) == "PACELIN1");
  CHECK((bytes.size() - kParameters.size() * sizeof(float)) % 64 == 0);
}

TEST_CASE("a_broken_model_file_says_what_is_wrong_with_it") {
  CHECK_THAT(status_after([](std::string& b) { b[0] = 'X'; }).message(), Contains("not a paceline model"));
  CHECK_THAT(status_after([](std::string& b) { b.clear(); }).message(), Contains("not a paceline model"));
  CHECK_THAT(status_after([](std::string& b) { b.resize(40); }).message(), Contains("truncated: 40 bytes"));
  CHECK_THAT(status_after([](std::string& b) { b.pop_back(); }).message(), Contains("truncated"));
  CHECK_THAT(status_after([](std::string& b) { b.push_back('x'); }).message(), Contains("too long"));
  CHECK_THAT(status_after([](std::string& b) { b[20] ^= 1; }).message(), Contains("checksum of its header"));
  CHECK_THAT(status_after([](std::string& b) { b.back() ^= 1; }).message(),
             Contains("checksum of its parameters"));
  // A header length of 4 GiB is a lie about the file, not a wish for memory.
  CHECK(status_after([](std::string& b) { b.replace(8, 4, "\xff\xff\xff\xff"); }).code() ==
        StatusCode::kDataLoss);
  const TempFolder folder;
  CHECK(read_model_file(folder / "none.bin").status().code() == StatusCode::kNotFound);
}

TEST_CASE("every_single_flipped_bit_is_noticed") {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  const std::string good = read_file(folder / "model.bin", 1 << 20).value();
  const std::string_view header_end = "}]";  // after it lies the padding, which carries nothing
  const std::size_t padding = good.find(header_end) + header_end.size();
  const std::size_t data = good.size() - kParameters.size() * sizeof(float);
  for (std::size_t at = 0; at < good.size(); ++at) {
    if (at >= padding && at < data) continue;
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    REQUIRE(write_file_atomically(folder / "bad.bin", bad));
    INFO("byte " << at);
    REQUIRE_FALSE(read_model_file(folder / "bad.bin").is_ok());
  }
}

TEST_CASE("another_networks_parameters_are_refused_with_both_hashes_and_the_tensor") {
  const ModelFile model{small_model(), kParameters};
  CHECK(require_layout(model, small_model().layout, "model.bin").is_ok());
  Layout other;
  REQUIRE(other.add("fc.weight", {2, 3}));
  REQUIRE(other.add("fc.bias", {3}));
  const Status status = require_layout(model, other, "model.bin");
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Contains("tensor 1 is fc.bias [2], expected fc.bias [3]"));
  CHECK_THAT(status.message(), Contains("expected ") && Contains("layout hash"));
  CHECK_THAT(require_layout(model, Layout(), "m").message(),
             Contains("fc.weight [2, 3], expected no tensor"));
}

TEST_CASE("a_model_begins_with_the_tensors_of_a_file_that_fit_by_name_and_shape_and_says_which") {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  Layout other;  // another first layer, the same bias, and a layer of its own
  REQUIRE(other.add("fc.weight", {2, 4}));
  REQUIRE(other.add("fc.bias", {2}));
  REQUIRE(other.add("head.bias", {1}));
  std::vector<float> parameters(11, 7.0F);
  const auto taken = take_parameters(folder / "model.bin", other, parameters);
  REQUIRE(taken.is_ok());
  CHECK(to_string(*taken) ==
        "1 of 3 tensors fit; drawn from run.seed: fc.weight [2, 4], there [2, 3], head.bias [1]; not used: "
        "fc.weight [2, 3]");
  std::vector<float> expected(11, 7.0F);
  expected[8] = -0.5F;
  expected[9] = 1e-30F;
  CHECK(parameters == expected);
}

TEST_CASE("a_model_file_of_which_nothing_fits_is_none_to_begin_with") {
  const TempFolder folder;
  REQUIRE(write_model_file(folder / "model.bin", small_model(), kParameters));
  Layout other;
  REQUIRE(other.add("conv.weight", {3}));
  std::vector<float> parameters(3, 7.0F);
  CHECK_THAT(take_parameters(folder / "model.bin", other, parameters).status().message(),
             Contains("no tensor of this tiny fits the model, got fc.weight [2, 3]") &&
                 Contains("expected conv.weight [3]"));
  CHECK(take_parameters(folder / "none.bin", other, parameters).status().code() == StatusCode::kNotFound);
}
