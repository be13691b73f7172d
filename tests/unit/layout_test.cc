// Layout and partition: what every daemon of a run has to agree on.
#include "common/params/layout.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "common/params/partition.h"

using namespace paceline;

namespace {
Layout two_layers() {
  Layout layout;
  REQUIRE(layout.add("conv.weight", {4, 3, 5, 5}));
  REQUIRE(layout.add("conv.bias", {4}));
  return layout;
}
}  // namespace

TEST_CASE("tensors_lie_one_after_another_without_gaps") {
  Layout layout = two_layers();
  const auto index = layout.add("scale", {});
  REQUIRE(index.is_ok());
  CHECK(index.value() == 2);
  CHECK(layout.tensors()[0].offset == 0);
  CHECK(layout.tensors()[1].offset == 300);
  CHECK(layout.tensors()[2].offset == 304);
  CHECK(layout.size() == 305);  // a tensor without dimensions is one number
}

TEST_CASE("an_element_is_found_in_its_tensor") {
  const Layout layout = two_layers();
  CHECK(layout.tensor_at(0)->name == "conv.weight");
  CHECK(layout.tensor_at(299)->name == "conv.weight");
  CHECK(layout.tensor_at(300)->name == "conv.bias");
  CHECK(layout.tensor_at(304) == nullptr);
  CHECK(layout.tensor_at(-1) == nullptr);
}

TEST_CASE("a_layout_refuses_what_cannot_be_a_tensor") {
  Layout layout = two_layers();
  CHECK(layout.add("", {1}).status().code() == StatusCode::kInvalidArgument);
  CHECK(layout.add("conv.bias", {1}).status().message() == "tensor 'conv.bias' appears twice in the layout");
  CHECK(layout.add("fc", {8, 0}).status().message() == "tensor 'fc': dimension 1 is 0, expected at least 1");
  CHECK(layout.add("fc", {-1}).status().code() == StatusCode::kInvalidArgument);
  CHECK(layout.add("fc", {std::int64_t{1} << 40}).status().code() == StatusCode::kInvalidArgument);
  // 2^32 * 2^32 is 0 in 64 bits: the product must not be formed.
  CHECK(layout.add("fc", {std::int64_t{1} << 32, std::int64_t{1} << 32}).status().code() ==
        StatusCode::kInvalidArgument);
  CHECK(layout.size() == 304);
  CHECK(layout.tensors().size() == 2);
}

// The most that a join may bring (docs/PROTOCOL.md): looking through all names for each would take minutes.
TEST_CASE("a_layout_of_65536_tensors_still_refuses_a_name_that_is_there") {
  Layout layout;
  for (int i = 0; i < 65536; ++i) REQUIRE(layout.add("tensor " + std::to_string(i), {1}).is_ok());
  CHECK_FALSE(layout.add("tensor 65535", {1}).is_ok());
  CHECK(layout.size() == 65536);
}

TEST_CASE("the_hash_tells_layouts_apart") {
  const auto hash_of = [](const std::string& name, const std::vector<std::int64_t>& shape) {
    Layout layout;
    REQUIRE(layout.add(name, shape));
    return layout.hash();
  };
  CHECK(two_layers().hash() == two_layers().hash());
  CHECK(hash_of("a", {2, 3}) != hash_of("a", {3, 2}));
  CHECK(hash_of("a", {6}) != hash_of("a", {2, 3}));
  CHECK(hash_of("a", {6}) != hash_of("b", {6}));
  CHECK(Layout().hash() != hash_of("a", {6}));
  // The hash travels between processes, so it may never change: computed by hand-written FNV-1a over the same
  // bytes.
  CHECK(hash_of("a", {6}) == 0xC016D8B7AB008E2Bu);
}

TEST_CASE("a_tensor_is_a_weight_or_by_its_name_a_bias_unless_it_is_said") {
  Layout layout = two_layers();
  REQUIRE(layout.add("bias", {1}));
  REQUIRE(layout.add("bn.weight", {4}, {.role = TensorRole::kNorm, .decay_factor = 0.0}));
  const auto& tensors = layout.tensors();
  CHECK(tensors[0].traits == TensorTraits{});
  CHECK(tensors[1].traits.role == TensorRole::kBias);
  CHECK(tensors[2].traits.role == TensorRole::kBias);
  CHECK(tensors[3].traits == TensorTraits{TensorRole::kNorm, 1.0, 0.0});
  CHECK(layout.add("fc.weight", {1}, {.lr_factor = -1.0}).status().message() ==
        "tensor 'fc.weight': factor -1.000000, expected a finite one of at least 0");
  CHECK_FALSE(layout.add("fc.weight", {1}, {.decay_factor = INFINITY}).is_ok());
}

// So that layouts of which nothing else is said keep the hash that they had before there were traits.
TEST_CASE("only_traits_that_are_not_the_usual_ones_change_the_hash") {
  const auto hash_of = [](TensorTraits weight, TensorTraits bias) {
    Layout layout;
    REQUIRE(layout.add("a.weight", {4}, weight));
    REQUIRE(layout.add("a.bias", {4}, bias));
    return layout.hash();
  };
  Layout plain;
  REQUIRE((plain.add("a.weight", {4}).is_ok() && plain.add("a.bias", {4}).is_ok()));
  const TensorTraits weight, bias{.role = TensorRole::kBias};
  CHECK(hash_of(weight, bias) == plain.hash());
  const std::vector<std::uint64_t> hashes{plain.hash(),
                                          hash_of(weight, weight),
                                          hash_of({.role = TensorRole::kNorm}, bias),
                                          hash_of({.lr_factor = 2.0}, bias),
                                          hash_of({.decay_factor = 2.0}, bias),
                                          hash_of({.decay_factor = 0.0}, bias),
                                          hash_of(weight, {.role = TensorRole::kBias, .lr_factor = 2.0})};
  CHECK(std::set(hashes.begin(), hashes.end()).size() == hashes.size());
}

TEST_CASE("shards_cover_every_element_once_and_are_nearly_equal") {
  for (std::int64_t total : {0, 1, 2, 3, 7, 100, 545098}) {
    for (std::uint32_t shards : {1u, 2u, 3u, 7u, 16u}) {
      const auto ranges = partition(total, shards);
      REQUIRE(ranges.size() == shards);
      std::int64_t next = 0;
      for (const Range& range : ranges) {
        CHECK(range.begin == next);
        CHECK(range.size() >= total / shards);
        CHECK(range.size() <= total / shards + 1);
        next = range.end;
      }
      CHECK(next == total);
    }
  }
  CHECK(partition(10, 3) == std::vector<Range>{{0, 4}, {4, 7}, {7, 10}});
}
