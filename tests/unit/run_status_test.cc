// The status of a run as JSON, and as text for a terminal.
#include "common/live/run_status.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/live/status_text.h"
#include "tests/unit/status_fixture.h"

namespace paceline {
namespace {

using Catch::Contains;
using testing::full_status;

TEST_CASE("what is written as JSON is read back, every key of it") {
  RunStatus resumed = full_status();
  resumed.before = {200, 1, 2, 3, 4};
  resumed.moved.reduced = 4500;
  resumed.moved.reducing = std::chrono::microseconds(6);
  const std::string text = to_json(resumed);
  const auto read = parse_run_status(text);
  REQUIRE(read.is_ok());
  CHECK(to_json(*read) == text);
  CHECK((read->before.iterations == 200 && read->before.nodes_lost == 4));
  CHECK(read->workers[1].waits_for == "worker 1.0");
  CHECK(read->workers[0].score->iteration_seconds == 0.2);
  CHECK_FALSE(read->workers[2].score);
  CHECK(read->workers[0].times == resumed.workers[0].times);
  CHECK((read->workers[0].samples == 224 && !read->workers[1].samples));
  CHECK(read->moved == resumed.moved);
  CHECK(nlohmann::json::parse(text)["moved"]["reducing_ns"] == 6'000);
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
        "70.1 %  1 skipped  "
        "1440 samples/s  34 % done  1:12 left  slow: 1.0  1 waits for 1.0  for 10.3 s: worker 0.1 waits for "
        "version 118");
  RunStatus skips;
  skips.skipped = 110;
  CHECK(status_line(skips) == "version 0  clock 0  gap 0/0  110 skipped  0 % done");
  RunStatus reduces;
  reduces.samples_per_second = 1440.0;
  reduces.moved.reduced = 4500;
  reduces.moved.reducing = std::chrono::microseconds(6);
  CHECK_THAT(status_line(reduces), Contains("1440 samples/s  bus 0.75 GB/s"));
  CHECK(status_line(RunStatus{}) == "version 0  clock 0  gap 0/0  0 % done");
}

TEST_CASE("on a terminal the numbers stay in their places, and who waits has a row alone") {
  using Rows = std::array<std::string, 2>;
  RunStatus s = full_status();
  s.stall.clear();
  s.workers[2].score = StragglerScore{0.36, 0.9, 0.5};
  CHECK(status_rows(s, 1'000) ==
        Rows{"version 117  clock 117..120  gap  3/3  LPR    1.2 %  loss  0.8123  train accuracy  71.2 %  "
             "test accuracy  70.1 %  1 skipped   1440 samples/s   34 % done     1:12 left",
             "1 waits for 1.0  slow: 1.0 (0.36)"});
  // On 80 columns all that a reader looks for is there: clocks, gap, LPR, loss, accuracy, speed, time left.
  const std::string narrow = status_rows(s, 79)[0], wide = status_rows(s, 1'000)[0];
  CHECK(narrow == "117..120 gap  3/3 LPR   1.2 loss  0.81 test  70.1 %  1440/s  34 %    1:12 left");
  // Whatever the numbers and whoever waits: nothing comes or goes, and nothing moves.
  s.min_clock = s.max_clock;
  s.lpr = -15.8;
  s.train_loss = 10.02;
  s.train_accuracy = 1.0;
  s.test_accuracy = 0.095;
  s.samples_per_second = 341.7;
  s.done = 1.0;
  s.seconds_left = 3'725;
  s.stragglers.clear();
  for (WorkerStatus& worker : s.workers) worker.waits_for.clear();
  CHECK(status_rows(s, 79) ==
        Rows{"120..120 gap  0/3 LPR -15.8 loss 10.02 test   9.5 % 341.7/s 100 % 1:02:05 left", ""});
  CHECK((status_rows(s, 79)[0].size() == narrow.size() && status_rows(s, 1'000)[0].size() == wide.size()));
  // A long run's numbers are wider; with hardly any room there are those that matter.
  s.min_clock = Clock(131'370);
  s.max_clock = Clock(131'420);
  s.seconds_left = 37'250;
  CHECK(status_rows(s, 79)[0] ==
        "131370..131420 gap 50/3 LPR -15.8 loss 10.02 test   9.5 % 341.7/s 10:20:50 left");
  CHECK(status_rows(s, 30)[0] == "131370..131420 10:20:50 left");
}

TEST_CASE("a wait that has become long stands on a terminal, whole as far as there is room") {
  CHECK(status_rows(full_status(), 79)[1] == "for 10.3 s: worker 0.1 waits for version 118  slow: 1.0");
  for (std::size_t columns = 0; columns < 200; ++columns) {
    for (const std::string& row : status_rows(full_status(), columns)) {
      CHECK(row.size() <= columns + 2);  // an ellipsis is one character of three bytes
    }
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

TEST_CASE("on a narrow terminal a worker's row still says for whom it waits") {
  CHECK_THAT(status_table(full_status(), 60, 40),
             Contains("\nworker        clock    gap  state       relative  waits for\n") &&
                 Contains("\n0.1             120      3  held            0.90  worker 1.0\n"));
  CHECK_THAT(status_table(full_status(), 45, 40),
             Contains("\n0.1             120  held        worker 1.0\n"));
  CHECK_THAT(status_table(full_status(), 20, 40), Contains("\n0.1       worker 1.0\n"));
}

TEST_CASE("each node has a line: where it is, who of it is slow or waits, and where its time goes") {
  RunStatus s = full_status();
  s.nodes[1].silent_seconds = 3.4;
  CHECK(node_lines(s, 100, 8) ==
        std::vector<std::string>{
            "node 0  clock 118..120  1 waits for 1.0  COMPUTE_GRADS 60 %  BARRIER 10 %  PS_APPLY_GRADS 8 %",
            "node 1  clock 117  silent for 3 s  slow: 1.0  1 waits for shard 1", "node 2  not here"});
  s.workers[0].state = s.workers[1].state = "finished";
  s.workers[2].state = "lost";
  s.nodes[1].up = false;
  CHECK(node_lines(s, 100, 8) ==
        std::vector<std::string>{"node 0  finished", "node 1  lost", "node 2  not here"});
  for (const std::string& line : node_lines(full_status(), 20, 8)) CHECK(line.size() <= 20 + 2);
  s.nodes.resize(1);
  CHECK(node_lines(s, 100, 8).empty());
}

TEST_CASE("of more nodes than there is room for, the slowest have a line") {
  RunStatus s = full_status();
  s.stragglers.clear();
  s.nodes.clear();
  s.workers.clear();
  for (std::uint32_t i = 0; i < 100; ++i) {
    s.nodes.push_back({i, true, 0.1});
    for (std::uint32_t thread = 0; thread < 2; ++thread) {
      s.workers.push_back({WorkerId(i, thread), Clock(1), "computing", "",
                           StragglerScore{i >= 57 && i < 59 && thread == 1 ? 0.2 : 1.0, 1.0, 1.0}});
    }
  }
  CHECK(node_lines(s, 100, 3) ==
        std::vector<std::string>{"node 57  clock 1", "node 58  clock 1", "and 98 more nodes"});
  CHECK((node_lines(s, 100, 1).empty() && node_lines(s, 100, 0).empty()));
  // Of more workers than a status lists the stragglers are known all the same.
  s.workers.resize(20);
  s.stragglers = {WorkerId(80, 1), WorkerId(70, 0)};
  CHECK(node_lines(s, 100, 3) ==
        std::vector<std::string>{"node 70  slow: 70.0", "node 80  slow: 80.1", "and 98 more nodes"});
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
  s.workers[2].waits_for = "worker \033[2J";
  for (const std::string& text :
       {status_table(s, 100, 40), status_line(s), node_lines(s, 100, 8).at(1), status_rows(s, 100)[1]}) {
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
