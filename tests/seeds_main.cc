// The main of those programs whose random schedules can be chosen (seeds.h).
#include "tests/catch_runner.h"
#include "tests/seeds.h"

namespace paceline::testing {
namespace {
AskedSeeds asked;
}  // namespace

Seeds seeds(std::uint64_t count) {
  Seeds range{.count = count, .first_is_chosen = asked.first != 0, .count_is_chosen = asked.count != 0};
  if (range.first_is_chosen) range.first = asked.first;
  if (range.count_is_chosen) range.count = asked.count;
  return range;
}

}  // namespace paceline::testing

int main(int argc, char** argv) {
  return paceline::testing::run_tests(argc, argv, &paceline::testing::asked);
}
