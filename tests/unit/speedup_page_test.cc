// The heat map of `paceline speedup`, cell by cell, and the mark of what was measured.
#include "tools/speedup_page.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace paceline {
namespace {

using Catch::Contains;

// The cells of a row of the map, as text.
std::vector<std::string> cells(const std::string& page, const std::string& workers) {
  std::vector<std::string> found;
  std::size_t at = page.find("<tr><th>" + workers + "</th>");
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find("</tr>", at);
  while ((at = page.find("<td", at)) < end) {
    const std::size_t begin = page.find('>', at) + 1;
    found.push_back(page.substr(begin, page.find("</td>", begin) - begin));
    at = begin;
  }
  return found;
}

// 5 workers: 1000 / (10 x 40) = 2.5 and 1000 / (50 x 10) = 2. The runs come in no order, one is missing, and a third
// axis has made one twice.
TEST_CASE("a_cell_of_the_map_is_that_of_its_workers_and_local_steps_in_whatever_order_the_runs_come") {
  const std::vector<sweep::RoundsNeeded> runs{{5, 50, 10, true},      {5, 10, 80}, {5, 10, 40}, {1, 1, 1000},
                                              {5, 100, std::nullopt}, {1, 50, 25}};
  SpeedupPage page{0.6, 1000, runs, {1, 5}, {1, 10, 50, 100}};
  const std::string html = speedup_page(page);
  CHECK(cells(html, "1") == std::vector<std::string>{"1", "", "0.8", ""});
  CHECK(cells(html, "5") == std::vector<std::string>{"", "2.5", "2*", "never"});
  CHECK_THAT(html, !Contains("measured"));
  CHECK_THAT(html, !Contains("<p>*"));
  page.remarks = "* too early\n";
  CHECK_THAT(speedup_page(page), Contains("<p>* too early\n</p>"));
  page.measured = 2e4;  // beyond what the lines reach
  CHECK_THAT(speedup_page(page), Contains("measured: 2e+04"));
}

}  // namespace
}  // namespace paceline
