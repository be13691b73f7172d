// The status of a run as JSON, and as text for a terminal.
#include "common/live/run_status.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/live/status_text.h"
#include "tests/unit/status_fixture.h"

namespace paceline {
namespace {

using Catch::Matchers::Contains;
using testing::full_status;

TEST_CASE("what is written as JSON is read back, every key of it") {
  RunStatus resumed = full_status();
  resumed.before = {200, 1, 2, 3, 4};
  const std::string text = to_json(resumed);
  const auto read = parse_run_status(text);
  REQUIRE(read.is_ok());
  CHECK(to_json(*read) == text);
  CHECK((read->before.iterations == 200 && read->before.nodes_lost == 4));
  CHECK(read->workers[1].waits_for == "worker 1.0");
  CHECK(read->workers[0].score->iteration_seconds == 0.2);
  CHECK_FALSE(read->workers[2].score);
  CHECK(read->workers[0].times == resumed.workers[0].times);
  CHECK(read->moved == resumed.moved);
  CHECK_FALSE(read->workers[2].times);
  CHECK((read->staleness_clocks == resumed.staleness_clocks && read->staleness_gradients.size() == 1));
  CHECK((read->stragglers == std::vector<WorkerId>{WorkerId(1, 0)}));
  CHECK(text.find('\n') == std::string::npos);  // a line: it is the data of an event
  CHECK(nlohmann::json::parse(text)["gap"] == 3);
}

TEST_CASE("numbers that JSON has not are null, and an infinite threshold is inf") {
  RunStatus s = full_status();
  s.threshold = Threshold::infinite();
  s.lpr = std::numeric_limits<double>::infinity();
  s.train_loss = std::numeric_limits<double>::quiet_NaN();
  const auto read = parse_run_status(to_json(s));
  REQUIRE(read.is_ok());
  CHECK(read->threshold.is_infinite());
  CHECK((!read->lpr && !read->train_loss));
}

TEST_CASE("what is no status is refused, naming the key") {
  CHECK_THAT(parse_run_status("{}").status().message(), Contains("'run' not found"));
  CHECK_THAT(parse_run_status("<html>").status().message(), Contains("not the status of a run"));
  auto json = nlohmann::json::parse(to_json(full_status()));
  json["version"] = "x";
  CHECK_THAT(parse_run_status(json.dump()).status().message(), Contains("number"));
  for (const char* worker : {"", "1", "1.", ".1", "a.b", "1.2.3", "99999999999.1"}) {
    json = nlohmann::json::parse(to_json(full_status()));
    json["workers"][0]["worker"] = worker;
    CHECK_FALSE(parse_run_status(json.dump()).is_ok());
  }
  CHECK_FALSE(parse_run_status(std::string(200'000, '[')).is_ok());
}

TEST_CASE("the line says what there is to say, in one line") {
  CHECK(status_line(full_status()) ==
        "version 117  clock 117..120  gap 3/3  LPR 1.2 %  loss 0.8123  train accuracy 71.2 %  test accuracy "
        "70.1 %  "
        "1440 samples/s  34 % done  1:12 left  slow: 1.0  1 waits for 1.0  for 10.3 s: worker 0.1 waits for "
        "version 118");
  CHECK(status_line(RunStatus{}) == "version 0  clock 0  gap 0/0  0 % done");
}

TEST_CASE("on 80 columns the line says how long it still takes, who is slow and who is waited for") {
  RunStatus s = full_status();
  s.stall.clear();
  s.lpr = -15.8;
  s.workers[2].score = StragglerScore{0.36, 0.9, 0.5};
  s.min_clock = Clock(37);
  s.max_clock = Clock(42);
  s.threshold = Threshold(5);
  s.seconds_left = 102;
  CHECK(status_line(s, 79) ==
        "37..42 gap 5/5 loss 0.81 test 70.1 % 1:42 left slow 1.0 (0.36) 1 waits for 1.0");
  // With room for all words there are all, and with hardly any those that matter.
  CHECK(status_line(s, 1'000) == status_line(s));
  CHECK_THAT(status_line(s, 100), Contains("LPR -15.8") && Contains("1440/s"));
  CHECK(status_line(s, 33) == "37..42 1:42 left 1 waits for 1.0");
  // A long run's numbers are wider.
  s.min_clock = Clock(131'370);
  s.max_clock = Clock(131'420);
  s.seconds_left = 37'250;
  const std::string line = status_line(s, 79);
  CHECK(line.size() <= 79);
  CHECK_THAT(line, Contains("131370..131420 gap 50/5") && Contains("10:20:50 left") &&
                       Contains("test 70.1 %") && Contains("1 waits for 1.0"));
}

TEST_CASE("a wait that has become long stands on 80 columns, too, whole as far as there is room") {
  const std::string line = status_line(full_status(), 79);
  CHECK_THAT(line, Contains("1:12 left") && Contains("for 10.3 s: worker 0.1 waits for version 118"));
  for (std::size_t columns = 0; columns < 200; ++columns) {
    const std::string text = status_line(full_status(), columns);
    CHECK(text.size() <= columns + 2);  // an ellipsis is one character of three bytes
  }
}

TEST_CASE("the table has a row for each worker and no line wider than the terminal") {
  const std::string wide = status_table(full_status(), 120, 40);
  CHECK_THAT(wide, Contains("my-run: training  policy dtssp  1:02  2 of 3 nodes  340 of 1000 iterations\n"));
  CHECK_THAT(wide, Contains("\ntime: COMPUTE_GRADS 60 %  BARRIER 10 %  PS_APPLY_GRADS 8 %  PS_PARAM 3 %\n"));
  CHECK_THAT(wide, Contains("\n1 worker waits for version 118"));
  CHECK_THAT(
      wide, Contains("\n0.1             120      3  held           0.220 s      0.90    0.95  worker 1.0\n"));
  for (const std::size_t columns : {20U, 40U, 80U}) {
    const std::string text = status_table(full_status(), columns, 40);
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      CHECK(end - begin <= columns + 2);  // an ellipsis is one character of three bytes
    }
  }
}

TEST_CASE("where there is no room for all workers, the slowest are shown") {
  RunStatus s = full_status();
  s.workers.clear();
  for (std::uint32_t i = 0; i < 100; ++i) {
    s.workers.push_back(
        {WorkerId(i, 0), Clock(1), "computing", "", StragglerScore{i == 57 ? 0.2 : 1.0, 1.0, 1.0}});
  }
  s.workers_total = 100;
  const std::string text = status_table(s, 100, 12);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 12);
  CHECK_THAT(text, Contains("\n57.0 "));
  CHECK_THAT(text, Contains("more workers"));
}

TEST_CASE("what another machine says moves no cursor") {
  RunStatus s = full_status();
  s.run = "a\033[2Jb\r\n\xc2\x9b";
  s.waits = {"x\ay"};
  s.stall = "\033]0;title\a";
  for (const std::string& text : {status_table(s, 100, 40), status_line(s)}) {
    for (const char c : text) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
    CHECK(text.find("\xc2\x9b") == std::string::npos);
  }
  CHECK(printable("502, \033]0;title\a\xc2\x9b \xc3\xa4\n") == "502, ?]0;title?? \xc3\xa4?");
}

TEST_CASE("with many waits there is still room for a worker") {
  RunStatus s = full_status();
  s.waits.assign(20, "node 0 waits");
  for (const std::size_t rows : {6U, 12U, 24U}) {
    const std::string text = status_table(s, 100, rows);
    CHECK(std::count(text.begin(), text.end(), '\n') <= static_cast<std::ptrdiff_t>(rows));
  }
  const std::string text = status_table(s, 100, 12);
  CHECK_THAT(text, Contains("and 18 more waits\n") && Contains("\nnode 0 waits\n") && Contains("\nworker "));
  s.waits_total = 120;  // the status has the first of them
  CHECK_THAT(status_table(s, 100, 12), Contains("and 118 more waits\n"));
}

TEST_CASE("a line is cut at characters, not at bytes") {
  CHECK(fitted("abc", 3) == "abc");
  CHECK(fitted("abcd", 3) == "ab…");
  CHECK(fitted("äöüß", 4) == "äöüß");
  CHECK(fitted("äöüßx", 4) == "äöü…");
  CHECK(fitted("x", 0).empty());
}

}  // namespace
}  // namespace paceline
