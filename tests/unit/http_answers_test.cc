// What is answered at which path, and what Prometheus gets; without sockets.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "server/http/answers.h"
#include "server/http/metrics.h"
#include "tests/unit/prometheus_text.h"
#include "tests/unit/status_fixture.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;
using testing::full_status;
using testing::read_prometheus;

struct Asked {
  int pages_made = 0;
  HttpAnswers answers{{[this] { return page(); }, [this] { return page(); }}, /*local=*/true};
  LiveState state{full_status(), Ticks(1)};

  Result<std::string> page() {
    ++pages_made;
    return std::string("made");
  }
  HttpAnswer get(const std::string& target, const std::string& host = "localhost:8080",
                 Ticks now = Ticks(1)) {
    return answers.to({"GET", target, host}, state, now);
  }
};

TEST_CASE("each path has what it says, and of its type") {
  Asked asked;
  CHECK(asked.get("/").type == "text/html; charset=utf-8");
  CHECK(*asked.get("/healthz").body == "ok\n");
  CHECK(nlohmann::json::parse(*asked.get("/status?x=1").body)["run"] == "my-run");
  CHECK(asked.get("/metrics").type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(asked.get("/events").events);
  CHECK_THAT(*asked.get("/events").body, Contains("event: status\ndata: {\"run\""));
  CHECK(asked.get("/nothing").code == 404);
  CHECK(asked.get("/../status").code == 404);
  CHECK(asked.answers.to({"POST", "/status", ""}, asked.state, Ticks(1)).code == 405);
}

TEST_CASE("a name that was pointed at this machine is refused, a number and localhost are not") {
  Asked asked;
  for (const char* host : {"localhost", "127.0.0.1:80", "127.8.9.1", "[::1]:80", ""}) {
    CHECK(asked.get("/status", host).code == 200);
  }
  for (const char* host : {"evil.example", "127.0.0.1.example:80", "localhost.example:80", "10.0.0.1"}) {
    CHECK(asked.get("/status", host).code == 403);
  }
  HttpAnswers open({}, /*local=*/false);
  CHECK(open.to({"GET", "/status", "cluster-7:8080"}, asked.state, Ticks(1)).code == 200);
}

TEST_CASE("a loop that stands still is not healthy") {
  Asked asked;
  CHECK(asked.get("/healthz", "", Ticks(1) + HttpAnswers::kHealthy).code == 200);
  const HttpAnswer late = asked.get("/healthz", "", Ticks(1) + HttpAnswers::kHealthy + 100ms);
  CHECK(late.code == 503);
  CHECK_THAT(*late.body, Contains("has not moved for 10.1 s"));
}

TEST_CASE("many readers of the data read the run directory once for each state") {
  Asked asked;
  for (int i = 0; i < 10; ++i) CHECK(*asked.get("/data.json").body == "made");
  CHECK(asked.pages_made == 1);
  asked.state.made = Ticks(2);
  asked.get("/data.json");
  CHECK(asked.pages_made == 2);
}

TEST_CASE("a run directory that cannot be read is said, not served") {
  HttpAnswers answers({[] { return Result<std::string>(not_found("no such run directory")); }, {}}, true);
  const LiveState state{full_status(), Ticks(1)};
  CHECK(answers.to({"GET", "/", ""}, state, Ticks(1)).code == 503);
  CHECK(answers.to({"GET", "/data.json", ""}, state, Ticks(1)).code == 404);
}

TEST_CASE("the metrics are as Prometheus wants them, whatever is known") {
  RunStatus infinite = full_status();
  infinite.threshold = Threshold::infinite();
  infinite.run = "a \"quoted\"\\ name\n";
  for (const RunStatus& status : {full_status(), RunStatus{}, infinite}) {
    const auto read = read_prometheus(metrics_text(status, 0.5));
    CHECK(read.faults == std::vector<std::string>{});
    CHECK(read.samples.size() > 20);
  }
  const auto read = read_prometheus(metrics_text(full_status(), 0.5));
  CHECK(read.samples.at("paceline_clock_gap") == 3);
  CHECK(read.samples.at("paceline_lpr_ratio") == Approx(0.0125));
  CHECK(read.samples.at("paceline_iterations_total") == 340);
  CHECK(read.samples.at("paceline_worker_held{node=\"0\",worker=\"0.1\"}") == 1);
  CHECK(read.samples.at("paceline_worker_relative_speed_ratio{node=\"0\",worker=\"0.1\"}") == 0.9);
  CHECK(read.samples.at("paceline_node_up{node=\"2\"}") == 0);
  CHECK(read.samples.at("paceline_server_pushed_bytes_total{shard=\"0\"}") == 1000);
  CHECK_FALSE(read.samples.contains("paceline_worker_own_speed_ratio{node=\"1\",worker=\"1.0\"}"));
}

TEST_CASE("a resumed run's counters begin with its servers") {
  RunStatus status = full_status();
  status.before = {300, 1, 1, 3, 0};
  const auto read = read_prometheus(metrics_text(status, 0.5));
  CHECK(read.samples.at("paceline_iterations_total") == 40);
  CHECK(read.samples.at("paceline_iterations_skipped_total") == 0);
  CHECK(read.samples.at("paceline_iterations_dropped_total") == 1);
  CHECK(read.samples.at("paceline_iterations_lost_total") == 0);
  CHECK(read.samples.at("paceline_nodes_lost_total") == 1);
}

TEST_CASE("the reader of the tests sees what is wrong") {
  for (const char* wrong :
       {"paceline_x 1\n", "# HELP a b\n# TYPE a counter\na 1\n",
        "# HELP a_total b\n# TYPE a_total gauge\na_total 1\n", "# HELP a b\n# TYPE a gauge\na 1\na 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=1} 1\n", "# HELP a b\n# TYPE a gauge\na one\n",
        "# HELP a_ms b\n# TYPE a_ms gauge\na_ms 1\n", "# HELP a b\n# TYPE a gauge\na 1",
        "# TYPE a gauge\n# HELP a b\na 1\n",
        "# HELP a b\n# TYPE a gauge\n# HELP b b\n# TYPE b gauge\na 1\n"}) {
    CHECK_FALSE(read_prometheus(wrong).faults.empty());
  }
}

// Every name that the dashboard asks for is exported, and every metric that is exported is in the list for
// users.
TEST_CASE("the dashboard and the documentation use exactly the names that are exported") {
  const auto contents = [](const char* file) {
    std::ifstream in(std::string(PACELINE_SOURCE_DIR) + "/docs/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  };
  const auto names_in = [](const std::string& text) {
    std::set<std::string> names;
    static const std::regex kMetric("\\bpaceline_[a-z_]+");
    for (std::sregex_iterator at(text.begin(), text.end(), kMetric), end; at != end; ++at)
      names.insert(at->str());
    return names;
  };
  std::set<std::string> exported;
  for (const auto& [name, type] : read_prometheus(metrics_text(full_status(), 0.5)).types)
    exported.insert(name);
  CHECK(names_in(contents("LIVE.md")) == exported);
  const std::string dashboard = contents("grafana-dashboard.json");
  const auto used = names_in(dashboard);
  CHECK(used.size() > 10);
  for (const std::string& name : used) CHECK(exported.contains(name));
  CHECK(nlohmann::json::accept(dashboard));
}

}  // namespace
}  // namespace paceline::server
