// Every instruction set that this processor offers gives the bits of kPlain: for each loop, weight decay,
// length and alignment, in place and apart, nothing beside the range touched. That the bits are those of the
// formulas is optimizer_test's and vector_ops_test's part. NaN counts as one value (kernels.h).
//
//   kernels_test --rng-seed time     other inputs than the usual ones; a failure prints the seed
#include "common/params/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"

using namespace paceline;
using kernels::Decay;
using kernels::InstructionSet;
using kernels::Kernels;
using kernels::Piece;

namespace {

constexpr std::int64_t kFloatsPerLine = 16;
struct alignas(64) Line {
  float values[kFloatsPerLine];
};

// Ordinary numbers of several orders of magnitude; in one of `special_in` cases one that arithmetic treats
// apart.
float random_float(CounterRandom& random, std::uint64_t special_in) {
  using Limits = std::numeric_limits<float>;
  if (random.next_below(special_in) == 0) {
    const float special[] = {0.0F,
                             Limits::denorm_min(),
                             Limits::min() * random.next_float(),
                             Limits::min(),
                             Limits::max(),
                             Limits::infinity(),
                             Limits::quiet_NaN()};
    const float value = special[random.next_below(std::size(special))];
    return random.next_below(2) == 0 ? value : -value;
  }
  return static_cast<float>(random.next_normal() * std::pow(10.0, random.next_double() * 6 - 4));
}

// Random floats in whole cache lines, of which a loop is given n, `offset` floats after the first line's
// begin.
class Array {
 public:
  Array(CounterRandom& random, std::int64_t n, std::int64_t offset, std::uint64_t special_in)
      : lines_(static_cast<std::size_t>((offset + n) / kFloatsPerLine + 2)), offset_(offset) {
    for (Line& line : lines_) {
      for (float& value : line.values) value = random_float(random, special_in);
    }
  }
  float* data() { return lines_.data()->values + offset_; }

  // Everything, what lies before and after the range included. The first difference, counted from the
  // range's begin.
  std::optional<std::int64_t> difference(const Array& other) const {
    for (std::size_t i = 0; i < lines_.size() * kFloatsPerLine; ++i) {
      const float a = lines_[i / kFloatsPerLine].values[i % kFloatsPerLine];
      const float b = other.lines_[i / kFloatsPerLine].values[i % kFloatsPerLine];
      const bool same = std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
                        (std::isnan(a) && std::isnan(b));
      if (!same) return static_cast<std::int64_t>(i) - offset_;
    }
    return std::nullopt;
  }

 private:
  std::vector<Line> lines_;
  std::int64_t offset_;
};

// All arrays that a loop may want. Each begins at an alignment of its own.
struct Arrays {
  Arrays(std::uint64_t seed, std::int64_t floats, std::int64_t offset, std::uint64_t special_in)
      : random(seed, Stream::kTest, static_cast<std::uint64_t>(floats), static_cast<std::uint64_t>(offset)),
        n(floats),
        in(random, n, offset, special_in),
        out(random, n, random_offset(), special_in),
        gradient(random, n, random_offset(), special_in),
        first(random, n, random_offset(), special_in),
        second(random, n, random_offset(), special_in) {
    // Adam's v is a mean of squares.
    for (std::int64_t i = 0; i < n; ++i) second.data()[i] = std::fabs(second.data()[i]);
  }
  std::int64_t random_offset() { return static_cast<std::int64_t>(random.next_below(kFloatsPerLine)); }

  CounterRandom random;
  std::int64_t n;
  Array in, out, gradient, first, second;
};

struct Operation {
  std::string name;
  std::function<void(const Kernels&, Arrays&)> run;
};

constexpr kernels::AdamStep kAdamStep{.rate = 0.00316F,
                                      .root_scale = 7.09F,
                                      .beta1 = 0.9F,
                                      .one_minus_beta1 = 0.1F,
                                      .beta2 = 0.999F,
                                      .one_minus_beta2 = 0.001F,
                                      .epsilon = 1e-8F};

// Every optimizer with every decay, in place and apart.
void add_optimizers(std::vector<Operation>& all) {
  for (const auto& [decay, decay_name] : {std::pair{kernels::WeightDecay{}, "no decay"},
                                          {kernels::WeightDecay{Decay::kCoupled, 0.013F}, "coupled"},
                                          {kernels::WeightDecay{Decay::kDecoupled, 0.0017F}, "decoupled"}}) {
    for (const bool in_place : {true, false}) {
      const std::string how = std::string(", ") + decay_name + (in_place ? ", in place" : ", apart");
      const auto piece = [in_place](Arrays& a) {
        return Piece{a.in.data(), in_place ? a.in.data() : a.out.data(), a.gradient.data(), a.n};
      };
      all.push_back({"sgd" + how, [=](const Kernels& k, Arrays& a) { k.sgd(piece(a), 0.0123F, decay); }});
      all.push_back({"sgd and check" + how,
                     [=](const Kernels& k, Arrays& a) { k.sgd_and_check(piece(a), 0.0123F, decay); }});
      if (!in_place) {
        all.push_back({"sgd past cache" + how,
                       [=](const Kernels& k, Arrays& a) { k.sgd_past_cache(piece(a), 0.0123F, decay); }});
        all.push_back({"adam past cache" + how, [=](const Kernels& k, Arrays& a) {
                         k.adam_past_cache(piece(a), a.first.data(), a.second.data(), kAdamStep, decay);
                       }});
      }
      for (const bool nesterov : {false, true}) {
        const std::string name = nesterov ? "nesterov" : "momentum";
        const kernels::MomentumStep step{0.0123F, 0.9F, nesterov};
        all.push_back({name + how, [=](const Kernels& k, Arrays& a) {
                         k.momentum(piece(a), a.first.data(), step, decay);
                       }});
        if (in_place) continue;
        all.push_back({name + " past cache" + how, [=](const Kernels& k, Arrays& a) {
                         k.momentum_past_cache(piece(a), a.first.data(), step, decay);
                       }});
      }
      all.push_back({"over root" + how, [=](const Kernels& k, Arrays& a) {
                       k.over_root(piece(a), a.second.data(), {0.0123F, 0.9F, 0.1F, 1e-8F}, decay);
                     }});
      all.push_back({"adam" + how, [=](const Kernels& k, Arrays& a) {
                       k.adam(piece(a), a.first.data(), a.second.data(), kAdamStep, decay);
                     }});
    }
  }
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  add_optimizers(all);
  all.push_back({"moments", [](const Kernels& k, Arrays& a) {
                   k.moments(a.first.data(), a.second.data(), a.gradient.data(), kAdamStep, a.n);
                 }});
  all.push_back({"move by moments", [](const Kernels& k, Arrays& a) {
                   k.move_by_moments(a.out.data(), a.in.data(), a.first.data(), a.second.data(), kAdamStep,
                                     0.0017F, a.n);
                 }});
  all.push_back({"move by moments, in place", [](const Kernels& k, Arrays& a) {
                   k.move_by_moments(a.in.data(), a.in.data(), a.first.data(), a.second.data(), kAdamStep,
                                     0.0017F, a.n);
                 }});
  const auto stale = [](Arrays& a) {
    return kernels::Stale{a.gradient.data(), a.in.data(), a.first.data(), a.out.data(), a.n};
  };
  all.push_back({"compensate", [=](const Kernels& k, Arrays& a) { k.compensate(stale(a), 0.04F); }});
  all.push_back({"compensate, adaptive", [=](const Kernels& k, Arrays& a) {
                   k.compensate_adaptive(stale(a), a.second.data(), {2.0F, 0.95F, 0.05F, 1e-7F});
                 }});
  all.push_back({"begin_sum", [](const Kernels& k, Arrays& a) {
                   k.begin_sum(a.out.data(), a.gradient.data(), 16.7F, a.n);
                 }});
  all.push_back({"add_weighted", [](const Kernels& k, Arrays& a) {
                   k.add_weighted(a.out.data(), a.gradient.data(), 16.7F, a.n);
                 }});
  all.push_back({"add_weighted to itself",
                 [](const Kernels& k, Arrays& a) { k.add_weighted(a.out.data(), a.out.data(), 0.3F, a.n); }});
  all.push_back({"scale", [](const Kernels& k, Arrays& a) { k.scale(a.out.data(), 1.0F / 3.0F, a.n); }});
  all.push_back({"subtract", [](const Kernels& k, Arrays& a) {
                   k.subtract(a.out.data(), a.in.data(), a.gradient.data(), a.n);
                 }});
  all.push_back({"subtract in place", [](const Kernels& k, Arrays& a) {
                   k.subtract(a.out.data(), a.out.data(), a.gradient.data(), a.n);
                 }});
  all.push_back({"copy past cache",
                 [](const Kernels& k, Arrays& a) { k.copy_past_cache(a.out.data(), a.in.data(), a.n); }});
  return all;
}

// The loops of `set`; nullptr, and a line that says so, where this processor has none.
const Kernels* offered(InstructionSet set, const char* name) {
  const Kernels* const loops = kernels::find(set);
  if (loops == nullptr) WARN(name << ": not on this processor, skipped");
  return loops;
}

// `what` was run, for the message.
void require_the_same(const Arrays& got, const Arrays& expected, const std::string& what) {
  const std::pair<const char*, std::optional<std::int64_t>> differences[] = {
      {"in", got.in.difference(expected.in)},
      {"out", got.out.difference(expected.out)},
      {"gradient", got.gradient.difference(expected.gradient)},
      {"first", got.first.difference(expected.first)},
      {"second", got.second.difference(expected.second)}};
  for (const auto& [array, at] : differences) {
    if (at) FAIL(what << ", " << got.n << " floats: " << array << "[" << *at << "]");
  }
}

void require_the_bits_of_plain(const Kernels& loops, const Operation& operation, const Arrays& before) {
  Arrays expected = before, got = before;
  operation.run(*kernels::find(InstructionSet::kPlain), expected);
  operation.run(loops, got);
  require_the_same(got, expected, std::string(loops.name) + ", " + operation.name);
}

void require_the_bits_of_plain(const Kernels& loops, const std::vector<std::int64_t>& sizes) {
  const std::vector<Operation> operations = all_operations();
  const std::uint64_t seed = Catch::rngSeed();
  for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
    for (const std::int64_t n : sizes) {
      // Ordinary numbers in one half of the cases: a NaN hides what became of its element before.
      const Arrays arrays(seed, n, offset, (n + offset) % 2 == 0 ? 4 : 1'000'000'000);
      INFO("seed " << seed << ", offset " << offset);
      for (const Operation& operation : operations) require_the_bits_of_plain(loops, operation, arrays);
    }
  }
}

std::vector<std::int64_t> sizes_up_to(std::int64_t last) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 0; n <= last; ++n) sizes.push_back(n);
  return sizes;
}

void require_the_first_non_finite(const Kernels& loops) {
  for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
    for (const std::int64_t n : {0, 1, 2, 7, 8, 15, 16, 17, 33, 70, 1023, 1024, 1025, 2100}) {
      CounterRandom random(Catch::rngSeed(), Stream::kTest, static_cast<std::uint64_t>(n));
      Array finite(random, n, offset, 1'000'000'000);
      INFO(loops.name << ", " << n << " floats, offset " << offset);
      REQUIRE(loops.first_non_finite(finite.data(), n) == n);
      for (std::int64_t at = n - 1; at >= 0; at -= n > 70 ? 61 : 1) {
        // From the back: what was found before stays in, after it.
        finite.data()[at] = at % 2 == 0 ? -std::numeric_limits<float>::infinity()
                                        : std::numeric_limits<float>::signaling_NaN();
        REQUIRE(loops.first_non_finite(finite.data(), n) == at);
      }
    }
  }
}

// Of one gradient at a time, wherever the value that is not finite stands: in the loop's middle, head or
// tail.
void require_steps_that_check(const Kernels& loops) {
  for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
    for (const std::int64_t n : {0, 1, 15, 16, 17, 33, 70, 300}) {
      Arrays a(Catch::rngSeed(), n, offset, 1'000'000'000);
      const Piece piece{a.in.data(), a.out.data(), a.gradient.data(), n};
      const auto found = [&](kernels::WeightDecay decay) {
        const bool beside = loops.sgd_and_check(piece, 0.1F, decay);
        REQUIRE(loops.sgd_past_cache(piece, 0.1F, decay) == beside);
        return beside;
      };
      for (const Decay kind : {Decay::kNone, Decay::kCoupled, Decay::kDecoupled}) {
        const kernels::WeightDecay decay{kind, 0.01F};
        INFO(loops.name << ", " << n << " floats, offset " << offset);
        REQUIRE_FALSE(found(decay));
        for (std::int64_t at = 0; at < n; at += n > 70 ? 7 : 1) {
          const float before = a.gradient.data()[at];
          a.gradient.data()[at] = at % 2 == 0 ? -std::numeric_limits<float>::infinity()
                                              : std::numeric_limits<float>::signaling_NaN();
          REQUIRE(found(decay));
          a.gradient.data()[at] = before;
          a.in.data()[at] = std::numeric_limits<float>::quiet_NaN();  // of parameters nobody asks
          REQUIRE_FALSE(found(decay));
          a.in.data()[at] = before;
        }
      }
    }
  }
}

using Lanes = std::array<double, static_cast<std::size_t>(kernels::kLanes)>;

bool same_lanes(const Lanes& a, const Lanes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y) ||
           (std::isnan(x) && std::isnan(y));
  });
}

// Sums that go on where others ended, of ranges of every length and alignment.
void require_the_sums_of_plain(const Kernels& loops) {
  const Kernels& plain = *kernels::find(InstructionSet::kPlain);
  for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
    for (const std::int64_t n : {0, 1, 7, 8, 9, 31, 64, 1000}) {
      Arrays a(Catch::rngSeed(), n, offset, n % 2 == 0 ? 50 : 1'000'000'000);
      Lanes got{1.0, 2.0}, expected{1.0, 2.0};
      loops.add_squares(got.data(), a.in.data(), n);
      plain.add_squares(expected.data(), a.in.data(), n);
      INFO(loops.name << ", " << n << " floats, offset " << offset);
      REQUIRE(same_lanes(got, expected));
      for (const auto& [k, lanes] : {std::pair{&loops, &got}, {&plain, &expected}}) {
        k->add_direction_squares(lanes->data(), a.in.data(), a.first.data(), a.second.data(), kAdamStep,
                                 0.013F, n);
      }
      REQUIRE(same_lanes(got, expected));
    }
  }
}

// Steps with every kind of decay, of pieces that begin everywhere in a cache line and end up to 70 floats on.
void for_each_short_step(
    const std::function<void(kernels::WeightDecay, std::int64_t offset, std::int64_t n)>& check) {
  for (const Decay kind : {Decay::kNone, Decay::kCoupled, Decay::kDecoupled}) {
    for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
      for (std::int64_t n = 0; n <= 70; ++n) check({kind, 0.013F}, offset, n);
    }
  }
}

// The gradient apart from the parameters, these apart from what they become.
Piece piece_of(Arrays& a) { return {a.in.data(), a.out.data(), a.gradient.data(), a.n}; }

}  // namespace

TEST_CASE("avx2_gives_the_bits_of_plain") {
  const Kernels* const loops = offered(InstructionSet::kAvx2, "avx2");
  if (loops == nullptr) return;
  require_the_bits_of_plain(*loops, sizes_up_to(70));
  require_the_bits_of_plain(*loops, {1000, 4099});
}

TEST_CASE("avx512_gives_the_bits_of_plain") {
  const Kernels* const loops = offered(InstructionSet::kAvx512, "avx512");
  if (loops == nullptr) return;
  require_the_bits_of_plain(*loops, sizes_up_to(70));
  require_the_bits_of_plain(*loops, {1000, 4099});
}

// What the others are compared with copies, too.
TEST_CASE("every_set_sums_squares_with_the_bits_of_plain") {
  for (const InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (const Kernels* const loops = kernels::find(set)) require_the_sums_of_plain(*loops);
  }
  // 1^2 + 9^2 in lane 0, then 2^2, ..., 8^2.
  Lanes lanes{};
  const float values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  kernels::best().add_squares(lanes.data(), values, 9);
  CHECK(lanes == Lanes{82, 4, 9, 16, 25, 36, 49, 64});
}

TEST_CASE("a_copy_past_the_cache_is_a_copy") {
  const Kernels& plain = *kernels::find(InstructionSet::kPlain);
  for (std::int64_t offset = 0; offset < kFloatsPerLine; ++offset) {
    for (std::int64_t n = 0; n <= 70; ++n) {
      Arrays arrays(Catch::rngSeed(), n, offset, 4);
      Arrays expected = arrays;
      std::copy_n(expected.in.data(), n, expected.out.data());
      plain.copy_past_cache(arrays.out.data(), arrays.in.data(), n);
      REQUIRE_FALSE(arrays.out.difference(expected.out));
    }
  }
}

TEST_CASE("a_step_that_looks_or_stores_past_the_cache_is_that_step") {
  const Kernels& plain = *kernels::find(InstructionSet::kPlain);
  for_each_short_step([&](kernels::WeightDecay decay, std::int64_t offset, std::int64_t n) {
    const Arrays before(Catch::rngSeed(), n, offset, 4);
    Arrays expected = before, checked = before, past = before;
    plain.sgd(piece_of(expected), 0.0123F, decay);
    plain.sgd_and_check(piece_of(checked), 0.0123F, decay);
    plain.sgd_past_cache(piece_of(past), 0.0123F, decay);
    require_the_same(checked, expected, "sgd and check");
    require_the_same(past, expected, "sgd past cache");
  });
}

TEST_CASE("a_step_with_a_state_that_stores_past_the_cache_is_that_step") {
  const Kernels& plain = *kernels::find(InstructionSet::kPlain);
  for_each_short_step([&](kernels::WeightDecay decay, std::int64_t offset, std::int64_t n) {
    // Special numbers in one half of the cases: a NaN hides what became of its element before.
    const Arrays before(Catch::rngSeed(), n, offset, (n + offset) % 2 == 0 ? 4 : 1'000'000'000);
    for (const bool nesterov : {false, true}) {
      const kernels::MomentumStep step{0.0123F, 0.9F, nesterov};
      Arrays expected = before, past = before;
      plain.momentum(piece_of(expected), expected.first.data(), step, decay);
      plain.momentum_past_cache(piece_of(past), past.first.data(), step, decay);
      require_the_same(past, expected, nesterov ? "nesterov past cache" : "momentum past cache");
    }
    Arrays expected = before, past = before;
    plain.adam(piece_of(expected), expected.first.data(), expected.second.data(), kAdamStep, decay);
    plain.adam_past_cache(piece_of(past), past.first.data(), past.second.data(), kAdamStep, decay);
    require_the_same(past, expected, "adam past cache");
  });
}

TEST_CASE("every_set_finds_the_first_value_that_is_not_finite") {
  for (const auto& [set, name] : {std::pair{InstructionSet::kPlain, "plain"},
                                  {InstructionSet::kAvx2, "avx2"},
                                  {InstructionSet::kAvx512, "avx512"}}) {
    if (const Kernels* const loops = offered(set, name)) require_the_first_non_finite(*loops);
  }
}

TEST_CASE("every_set_steps_and_sees_whether_the_gradient_is_finite") {
  for (const auto& [set, name] : {std::pair{InstructionSet::kPlain, "plain"},
                                  {InstructionSet::kAvx2, "avx2"},
                                  {InstructionSet::kAvx512, "avx512"}}) {
    if (const Kernels* const loops = offered(set, name)) require_steps_that_check(*loops);
  }
}

TEST_CASE("the_best_set_is_the_last_one_that_the_processor_offers") {
  const Kernels* last = nullptr;
  for (const InstructionSet set : {InstructionSet::kPlain, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    const Kernels* const loops = kernels::find(set);
    if (loops == nullptr) continue;
    CHECK(loops->set == set);
    last = loops;
  }
  REQUIRE(kernels::find(InstructionSet::kPlain) != nullptr);
  // Of Adam's loops AVX2's are the best.
  const Kernels* const avx2 = kernels::find(InstructionSet::kAvx2);
  CHECK(kernels::best().set == last->set);
  CHECK(kernels::best().momentum == last->momentum);
  CHECK(kernels::best().momentum_past_cache == last->momentum_past_cache);
  CHECK(kernels::best().adam == (avx2 != nullptr ? avx2 : last)->adam);
  CHECK(kernels::best().adam_past_cache == (avx2 != nullptr ? avx2 : last)->adam_past_cache);
}
