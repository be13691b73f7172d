// exchange.algorithm: auto: what ranks measure, and what they keep of it.
#include "worker/allreduce/measured_choice.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/files/atomic_file.h"
#include "common/ticks.h"
#include "tests/unit/mesh_ranks.h"
#include "tests/unit/temp_folder.h"
#include "worker/allreduce/kept_choices.h"

namespace paceline::mesh {
namespace {

using schedule::Algorithm;

// Of each rank of two, from the file of that name: what was chosen, and whether it was kept.
std::vector<KeptChoices> chosen_from(const std::vector<std::filesystem::path>& files,
                                     const std::vector<std::int64_t>& floats,
                                     const std::optional<FormationKey>& key = {}) {
  Ranks ranks(2);
  ranks.key = key;
  std::vector<KeptChoices> choices(2);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) -> Status {
    std::vector<float> vector(1000);
    std::uint32_t reductions = 0;
    const MeasureRequest request{{rank, 2, {0, 0}}, floats, vector, Encoding::kFp32, kWithin, steady_now};
    PACELINE_ASSIGN_OR_RETURN(
        choices[rank], choices_from(files[rank], {"127.0.0.1", "127.0.0.1"}, request, mesh, reductions));
    return choices[rank].written;
  });
  for (const Status& status : ended) CHECK(status.message() == "");
  return choices;
}

}  // namespace

TEST_CASE("each stage keeps what it has measured in a file of its own") {
  RunConfig config;
  config.exchange.measured = "kept";
  CHECK(choices_file(config, NodeId(3)) == "kept");
  config.pipeline.stages = 2;
  CHECK(choices_file(config, NodeId(3)) == "kept.stage1");
}

namespace {

bool same_times(const KeptChoices& a, const KeptChoices& b) {
  return std::equal(a.choices.begin(), a.choices.end(), b.choices.begin(), b.choices.end(),
                    [](const MeasuredChoice& x, const MeasuredChoice& y) { return x.words() == y.words(); });
}

// Ranks whose clocks differ, so that each would choose for itself otherwise.
TEST_CASE("what is measured at the start is chosen alike by every rank") {
  Ranks ranks(3);
  const std::vector<std::int64_t> floats = {70'000, 100, 90'000, 5};
  std::vector<std::vector<MeasuredChoice>> choices(3);
  std::vector<std::uint32_t> reductions(3);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) -> Status {
    Ticks (*const clocks[])() = {steady_now, [] { return Ticks(7 * steady_now().ns); },
                                 [] { return Ticks(0); }};
    std::vector<float> vector(90'000);
    PACELINE_ASSIGN_OR_RETURN(
        choices[rank],
        measure_choices({{rank, 3, {0, 0, 1}}, floats, vector, Encoding::kFp32, kWithin, clocks[rank]}, mesh,
                        reductions[rank]));
    return Status::ok();
  });
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(ended[rank].message() == "");
    REQUIRE(choices[rank].size() == 3);  // of three powers of four
    CHECK(reductions[rank] == reductions[0]);
    for (const std::int64_t size : floats) {
      CHECK(chosen_for(choices[rank], size) == chosen_for(choices[0], size));
    }
  }
  CHECK((choices[0][0].floats == 5 && choices[0][1].floats == 100 && choices[0][2].floats == 90'000));
  CHECK(choices[0][0].times.size() == 5);  // three ranks are no torus, and of two machines
}

// Of two ranks that measure with this clock, how many reductions each takes: three a turn of so many candidates in turn
// 0, and one at the end of each turn.
std::uint32_t reductions_by(Ticks (*clock)(), const std::vector<std::int64_t>& floats,
                            std::vector<MeasuredChoice>& choices) {
  Ranks ranks(2);
  std::vector<std::uint32_t> reductions(2);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) -> Status {
    std::vector<float> vector(1000);
    auto measured = measure_choices({{rank, 2, {0, 0}}, floats, vector, Encoding::kFp32, kWithin, clock},
                                    mesh, reductions[rank]);
    if (rank == 0 && measured.is_ok()) choices = *measured;
    return measured.status();
  });
  for (const Status& status : ended) CHECK(status.message() == "");
  CHECK(reductions[0] == reductions[1]);
  return reductions[0];
}

// Every second time that it is asked a reduction has ended, which has taken so many milliseconds.
Ticks after_reductions(double (*milliseconds_of)(int)) {
  thread_local int calls = 0;
  thread_local double now_ms = 0.0;
  if (calls++ % 2 == 1) now_ms += milliseconds_of(calls / 2 - 1);
  return Ticks(static_cast<std::int64_t>(now_ms * 1e6));
}

TEST_CASE("a small class leaves its time to a large one, and who is behind takes no further turns") {
  std::vector<MeasuredChoice> choices;
  SECTION("32 turns of 4 short ones, then 13 of 80 ms within a second") {
    Ticks (*const clock)() = [] { return after_reductions([](int n) { return n < 32 * 4 ? 0.001 : 20.0; }); };
    CHECK(reductions_by(clock, {30, 1000}, choices) == (32 + 13) * (4 * 2 + 1));
  }
  SECTION("3 turns of 100 ms, then 12 of 60 ms without the tree") {
    // In turn 1 the tree, which is last else, is first.
    Ticks (*const clock)() = [] {
      return after_reductions([](int n) { return n == 3 || n == 4 || n == 11 ? 40.0 : 20.0; });
    };
    CHECK(reductions_by(clock, {1000}, choices) == 3 * (4 * 2 + 1) + 12 * (3 * 2 + 1));
    CHECK(choices.at(0).words() ==
          "up to 1000 floats: ring 20 ms, binary_blocks 20 ms, direct 20 ms, tree 40 ms: ring");
  }
  SECTION("one turn of what takes longer than a second, of which each counts") {
    Ticks (*const clock)() = [] { return after_reductions([](int n) { return n == 2 ? 300.0 : 400.0; }); };
    CHECK(reductions_by(clock, {1000}, choices) == 4 * 2 + 1);
    CHECK(choices.at(0).words() ==
          "up to 1000 floats: ring 400 ms, binary_blocks 400 ms, direct 300 ms, tree 400 ms: direct");
  }
}

TEST_CASE(
    "as many buckets of a class are measured together as a step has under way, and the time is that of "
    "each") {
  std::vector<MeasuredChoice> choices;
  Ticks (*const clock)() = [] { return after_reductions([](int) { return 400.0; }); };
  const auto [floats, together] = GENERATE(table<std::vector<std::int64_t>, std::uint32_t>(
      {{{100, 90}, 2}, {{100, 70, 80, 90, 100, 99}, 4}, {{600, 600}, 1}}));
  CHECK(reductions_by(clock, floats, choices) == 4 * (1 + together) + 1);
  CHECK(choices.at(0).times.at(0).seconds == Approx(0.4 / together));
}

TEST_CASE("what was measured is kept, and used where all ranks have the same of the same sizes") {
  const testing::TempFolder folder;
  const std::filesystem::path at(folder.path());
  const std::vector<std::filesystem::path> files = {at / "0.txt", at / "1.txt"};
  const auto first = chosen_from(files, {1000, 30});
  CHECK((!first[0].were_kept && !first[1].were_kept));
  CHECK(same_times(first[0], first[1]));
  const auto again = chosen_from(files, {30, 1000});
  CHECK((again[0].were_kept && again[1].were_kept));
  CHECK(same_times(again[0], first[0]));
  SECTION("with keys") { CHECK_FALSE(chosen_from(files, {1000, 30}, new_formation_key())[0].were_kept); }
  SECTION("other sizes") { CHECK_FALSE(chosen_from(files, {1000})[0].were_kept); }
  SECTION("a rank lacks it") {
    std::filesystem::remove(files[1]);
    const auto measured = chosen_from(files, {1000, 30});
    CHECK((!measured[0].were_kept && !measured[1].were_kept));
  }
  SECTION("a rank has another") {
    std::filesystem::copy_file(files[0], at / "both.txt");
    static_cast<void>(chosen_from({at / "both.txt", at / "new.txt"}, {1000, 30}));
    CHECK_FALSE(chosen_from({files[0], at / "new.txt"}, {1000, 30})[0].were_kept);
  }
  SECTION("it is of a version whose seconds mean something else") {
    for (const auto& file : files) {
      const std::string text = read_file(file, 1 << 16).value();
      std::ofstream(file) << "paceline algorithms 1" << text.substr(text.find('\n'));
    }
    CHECK_FALSE(chosen_from(files, {1000, 30})[0].were_kept);
  }
  SECTION("it is damaged") {
    std::ofstream(files[0], std::ios::app) << "70 ring\n";
    CHECK_FALSE(chosen_from(files, {1000, 30})[1].were_kept);
  }
}

TEST_CASE("the fastest is chosen, and the words say of which") {
  const MeasuredChoice choice{
      64, {{Algorithm::kRing, 0.003}, {Algorithm::kDirect, 0.002}, {Algorithm::kTree, 0.002}}};
  CHECK(choice.words() == "up to 64 floats: ring 3 ms, direct 2 ms, tree 2 ms: direct");
}

}  // namespace
}  // namespace paceline::mesh
