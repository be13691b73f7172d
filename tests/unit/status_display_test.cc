// What a server shows of its run where lines are written, in a file or a pipe.
#include "server/run/status_display.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "tests/unit/status_fixture.h"

namespace paceline::server {
namespace {

struct Lines {
  std::ostringstream out;
  StatusDisplay display{&out, StatusDisplay::Style::kLines, [] { return StatusDisplay::Size(); }};
  RunStatus status = testing::full_status();

  explicit Lines(const char* missing) {
    status.state = "gathering";
    waits_for(missing);
  }
  void waits_for(const char* missing) {
    status.waits = {std::string("training has not begun: ") + missing + " has not joined"};
  }
  std::string at(int seconds) {
    out.str("");
    display.show(status, Ticks{} + std::chrono::seconds(seconds));
    return out.str();
  }
};

TEST_CASE("among lines a wait before the training is said once, when it has stayed the same for 5 s") {
  Lines shown("node 1");
  CHECK(shown.at(0).empty());
  CHECK(shown.at(4).empty());
  CHECK(shown.at(5) == "gathering: training has not begun: node 1 has not joined\n");
  CHECK(shown.at(15).empty());
  shown.waits_for("node 2");  // another one
  CHECK(shown.at(20).empty());
  CHECK(shown.at(25) == "gathering: training has not begun: node 2 has not joined\n");
}

TEST_CASE("among lines who waits for nobody before the training says nothing") {
  Lines shown("node 1");
  shown.status.waits.clear();
  for (const int seconds : {0, 5, 10}) CHECK(shown.at(seconds).empty());
  shown.status.state = "training";
  CHECK(shown.at(11).starts_with("version 117"));
}

}  // namespace
}  // namespace paceline::server
