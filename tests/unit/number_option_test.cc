// Options that are a double, of every subcommand that has one: what is no number is refused as it is read.
#include "tools/number_option.h"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>

#include "tools/data_bench.h"
#include "tools/schedule.h"
#include "tools/speedup.h"
#include "tools/sweep.h"

namespace paceline {
namespace {

TEST_CASE("an_option_is_a_finite_number_that_fits") {
  const auto above = number_option([](double x) { return x > 0.0; }, "a number above 0");
  for (const char* text : {"1", "0.5", "1e-3"}) CHECK(above(text).empty());
  for (const std::string text : {"0", "-1", "nan", "inf", "1x", ""}) {
    CHECK(above(text) == "got " + text + ", expected a number above 0");
  }
}

TEST_CASE("no_subcommand_takes_nan") {
  int status = 0;
  CLI::App app;
  app.require_subcommand(1);
  add_schedule(app, status);
  add_speedup(app, status);
  add_sweep(app, status);
  CLI::App* const data = app.add_subcommand("data", "");
  add_data_bench(*data, status);
  for (const std::string line :
       {"schedule p.yaml --measure --speeds 1,", "speedup p.yaml --out o --target 0.5 --exchange 1,",
        "speedup p.yaml --out o --target ", "sweep p.yaml --out o --target ", "data bench p.yaml --seconds ",
        "data bench p.yaml --step-ms "}) {
    for (const char* number : {"nan", "-nan", "inf"}) {
      CAPTURE(line, number);
      CHECK_THROWS_AS(app.parse(line + number), CLI::ValidationError);
    }
  }
}

}  // namespace
}  // namespace paceline
