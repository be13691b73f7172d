// What a simulated run leaves behind, from the command to its files; traces; and what is refused before
// anything runs.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <sstream>

#include "common/files/atomic_file.h"
#include "common/report/run_summary.h"
#include "common/wire/codec.h"
#include "simulate/message_sizes.h"
#include "simulate/trace.h"
#include "tests/unit/simulate_fixture.h"
#include "tests/unit/temp_folder.h"
#include "tools/report.h"
#include "tools/simulate.h"

namespace paceline::test {
namespace {

using Catch::Contains;
using paceline::testing::TempFolder;
namespace fs = std::filesystem;

// The plain run as a file, and `paceline simulate` of it.
class Command {
 public:
  Command() { REQUIRE(write_file_atomically(config_, kPlainRun).is_ok()); }

  int operator()(const std::string& out, std::vector<std::string> overrides, const std::string& trace = "",
                 Force force = Force::kNo) {
    printed_.str("");
    refused_.str("");
    return run_simulate({config_.string(), std::move(overrides), (folder_ / out).string(), force, trace},
                        printed_, refused_);
  }
  fs::path operator/(const std::string& name) const { return folder_ / name; }
  std::string reported() const { return printed_.str(); }
  std::string warnings() const { return refused_.str(); }
  // The one line of a refusal.
  std::string refusal() const {
    CHECK(printed_.str().empty());
    const std::string line = refused_.str();
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    return line;
  }
  fs::path config() const { return config_; }

 private:
  TempFolder folder_;
  fs::path config_ = folder_ / "run.yaml";
  std::ostringstream printed_, refused_;
};

std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path(), 1 << 24).value();
  }
  return files;
}

const std::vector<std::string> kBusy{"sync.policy=dtssp",
                                     "simulate.compute.distribution=gamma",
                                     "simulate.compute.slow_share=0.2",
                                     "simulate.compute.slow_length=2s",
                                     "simulate.compute.pause_every=5s",
                                     "simulate.network.server_bandwidth=50MiB",
                                     "simulate.network.latency=1ms",
                                     "simulate.costs.message=20us",
                                     "cluster.nodes=3",
                                     "cluster.threads_per_node=2",
                                     "train.total_iterations=600",
                                     "sync.lpr.window_clocks=10",
                                     "simulate.metric.final_accuracy=0.9",
                                     "simulate.events=[{at: 3s, node: 2, kind: crash}]"};

TEST_CASE("a_time_of_rounds_that_some_node_s_mini_batches_do_not_fit_into_is_named_and_the_run_goes_on") {
  Command paceline;
  const std::string rounds = "train.local_steps=5", inner = "train.inner_optimizer.kind=sgd";
  const std::string slow = "simulate.compute.slowdown=[1, 4]";
  REQUIRE(paceline("short", {rounds, inner, slow, "train.local_time=150ms"}) == 0);
  CHECK(paceline.warnings() ==
        "command line: train.local_time: shorter than a mini-batch of node 1, got 150ms, "
        "expected some 400ms: each of its rounds has one\n");
  REQUIRE(paceline("enough", {rounds, inner, slow, "train.local_time=400ms"}) == 0);
  CHECK(paceline.warnings().empty());
}

TEST_CASE("the_same_seed_gives_the_same_bytes_of_every_file_and_another_seed_others") {
  Command paceline;
  REQUIRE(paceline("run", kBusy) == 0);
  const auto first = files_of(paceline / "run");
  REQUIRE(paceline("run", kBusy, "", Force::kTwice) == 0);
  CHECK(files_of(paceline / "run") == first);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : first) names.push_back(name);
  CHECK(names == std::vector<std::string>{"config.yaml", "curve.csv", "phases.csv", "phases_histogram.csv",
                                          "progress.csv", "staleness.csv", "summary.json"});
  CHECK_THAT(first.at("summary.json"), Contains("\"simulated\": true") && Contains("\"seed\": 7"));
  std::vector<std::string> other = kBusy;
  other.emplace_back("run.seed=8");
  REQUIRE(paceline("run", other, "", Force::kTwice) == 0);
  CHECK(files_of(paceline / "run").at("phases.csv") != first.at("phases.csv"));
}

TEST_CASE("a_bandwidth_for_each_node_is_one_for_all_where_they_are_equal") {
  Command paceline;
  std::vector<std::string> one = kBusy, each = kBusy;
  one.emplace_back("simulate.network.bandwidth=20MiB");
  each.emplace_back("simulate.network.bandwidth=[20MiB, 20MiB, 20MiB]");
  REQUIRE(paceline("one", one) == 0);
  REQUIRE(paceline("each", each) == 0);
  auto files = files_of(paceline / "one"), same = files_of(paceline / "each");
  CHECK_THAT(files["config.yaml"], Contains("bandwidth: 20MiB\n"));
  CHECK_THAT(same["config.yaml"], Contains("bandwidth: [20MiB, 20MiB, 20MiB]\n"));
  for (auto* of : {&files, &same}) of->erase("config.yaml");
  CHECK(same == files);
}

TEST_CASE("paceline_report_reads_a_simulated_run_and_says_that_it_is_one") {
  Command paceline;
  REQUIRE(paceline("ssp", {"sync.policy=ssp", "simulate.compute.slowdown=[1, 2]"}) == 0);
  CHECK_THAT(paceline.reported(), Contains("ok, 20 iterations in 2.000 s of virtual time"));
  REQUIRE(paceline("bsp", {"sync.policy=bsp", "simulate.compute.slowdown=[1, 2]"}) == 0);
  std::ostringstream out, err;
  REQUIRE(report({{(paceline / "ssp").string()}}, out, err) == 0);
  CHECK_THAT(out.str(), Contains("simulated with seed 7") && Contains("lost nodes 0"));
  REQUIRE(report({{(paceline / "ssp").string(), (paceline / "bsp").string()}}, out, err) == 0);
  CHECK_THAT(out.str(), Contains("ssp: simulated with seed 7"));
  CHECK(err.str().empty());
}

TEST_CASE("a_directory_that_holds_a_run_is_replaced_only_by_force") {
  Command paceline;
  REQUIRE(paceline("run", {}) == 0);
  CHECK(paceline("run", {}) == 2);
  CHECK_THAT(paceline.refusal(), Contains("already holds a run that has ended well (summary.json)") &&
                                     Contains("--force --force"));
  // What is refused costs nothing that is there.
  CHECK(paceline("run", {"sync.policy=dtssp"}, "", Force::kTwice) == 2);
  CHECK(paceline("run", {}, "", Force::kOnce) == 2);
  CHECK_THAT(paceline.refusal(), Contains("has ended well") && Contains("--force --force"));
  CHECK(fs::exists(paceline / "run" / "summary.json"));
  // A real run's logs would contradict the new one.
  REQUIRE(write_file_atomically(paceline / "run" / "worker-3.log", "old").is_ok());
  CHECK(paceline("run", {}, "", Force::kTwice) == 0);
  CHECK_FALSE(fs::exists(paceline / "run" / "worker-3.log"));
}

TEST_CASE("what_cannot_be_simulated_is_refused_in_one_line_that_names_it") {
  struct Case {
    std::vector<std::string> overrides;
    std::string line;
  };
  Command paceline;
  const std::string final_metric = "simulate.metric.final_accuracy=0.5";
  for (const Case& bad : std::vector<Case>{
           {{"sync.policy=dtssp"}, "sync.policy: dtssp follows a training metric"},
           {{"sync.policy=switch",
             "sync.stages=[{policy: bsp, until: {train_accuracy: 0.5}}, {policy: ssp, threshold: 2}]"},
            "sync.policy: switch follows a training metric"},
           {{"simulate.compute.distribution=emulated", "simulate.compute.mean=null"},
            "nothing says how long an iteration takes"},
           {{"simulate.compute.distribution=constant", "simulate.compute.mean=null"},
            "simulate.compute.distribution: a distribution without a mean"},
           {{"simulate.compute.mean=-1ms"}, "simulate.compute.mean: out of range"},
           {{"simulate.compute.distribution=weibull"}, "simulate.compute.distribution: unknown choice"},
           {{"simulate.compute.distribution=pareto", "simulate.compute.shape=1"},
            "simulate.compute.shape: out of range"},
           {{"simulate.compute.distribution=gamma", "simulate.compute.cv=-0.1"},
            "simulate.compute.cv: out of range"},
           {{"simulate.compute.distribution=normal", "simulate.compute.cv=0.5"}, "often below 0"},
           {{"simulate.compute.cv=0.5"}, "simulate.compute.cv: nobody reads it"},
           {{"simulate.compute.slowdown=[1, 2, 3]"}, "simulate.compute.slowdown: one factor"},
           {{"simulate.compute.mean=1h", "simulate.compute.slowdown=[1000]", "train.total_iterations=20000"},
            "simulate.compute.slowdown: the slowest worker would compute for more than a century"},
           {{"simulate.compute.mean=1h", "simulate.compute.pause_every=1us"},
            "simulate.compute.pause_every: more than a million periods in one computation"},
           {{"simulate.compute.pause_every=1us", "simulate.compute.pause_length=1000h"},
            "simulate.compute: the run is not over after a century of virtual time, got 0 of 20 iterations"},
           {{"simulate.compute.pause_every=100ms", "simulate.compute.pause_length=1000h",
             "train.total_iterations=4000"},
            "run.yaml: simulate.compute: the run is not over after a century"},
           {{"simulate.costs.apply=1000000", "simulate.costs.message=1h", "train.total_iterations=4000000"},
            "the run is not over after a century"},
           {{"simulate.compute.slow_share=1"}, "simulate.compute.slow_share: out of range"},
           {{"simulate.compute.slow_factor=3"}, "simulate.compute.slow_factor: nobody reads it"},
           {{"simulate.network.bandwidth=-5"}, "simulate.network.bandwidth: impossible size"},
           {{"simulate.network.bandwidth=[1MiB, 2MiB, 3MiB]"},
            "command line: simulate.network.bandwidth: one bandwidth, or one for each node, got 3"},
           {{"simulate.network.bandwith=1MiB"}, "did you mean simulate.network.bandwidth?"},
           {{"simulate.costs.apply=.nan"}, "simulate.costs.apply: not a finite number"},
           {{"simulate.events=[{at: 1s, node: 2, kind: crash}]"}, "there is no such node"},
           {{"simulate.events=[{at: 1s, node: 0, kind: join}, {at: 0s, node: 1, kind: join}]"},
            "simulate.events: nobody is there at the start"},
           {{"simulate.events=[{at: 3s, node: 0, kind: join}, {at: 1s, node: 0, kind: crash}, {at: 4s, node: "
             "0, "
             "kind: join}]"},
            "simulate.events: it is there, got a join of node 0 at 4s"},
           {{"sync.policy=backup", "simulate.events=[{at: 1s, node: 0, kind: join}]"},
            "with backup workers nobody comes later"},
           {{"train.batch_balance=speed", "simulate.events=[{at: 1s, node: 0, kind: join}]"},
            "the samples of each clock are cut for all workers of the run"},
           {{"simulate.mode=training", "sync.policy=asp", "train.optimizer.delay_compensation.kind=constant",
             "simulate.events=[{at: 1s, node: 0, kind: crash}, {at: 2s, node: 0, kind: join}]"},
            "simulate.events: servers keep what a node computes with"},
           {{"simulate.events=[{at: 1s, node: 0, kind: nap}]"}, "events[0].kind: unknown choice"},
           {{"simulate.events=[{at: 1s, node: 0}]"}, "missing key"},
           {{"simulate.events=[{at: 1s, node: 0, kind: crash, why: x}]"}, "unknown key"},
           {{final_metric, "simulate.metric.curve=c.csv"}, "two curves for one metric"},
           {{"simulate.metric.curve=/no/such/file"}, "/no/such/file"},
           {{"simulate.metric.half_samples=5"}, "simulate.metric.half_samples: nobody reads it"},
           {{final_metric, "simulate.metric.noise=none", "simulate.metric.loss_deviation=2"},
            "simulate.metric.loss_deviation: nobody reads it"},
           {{"run.target_accuracy=0.5", "train.eval_every_clocks=5"}, "run.target_accuracy: timing mode"}}) {
    INFO(bad.overrides.back());
    CHECK(paceline("run", bad.overrides) == 2);
    CHECK_THAT(paceline.refusal(), Contains(bad.line));
    CHECK_FALSE(fs::exists(paceline / "run" / "summary.json"));
  }
}

TEST_CASE("a_curve_file_must_ascend_and_hold_accuracies_and_losses") {
  Command paceline;
  const fs::path curve = paceline / "curve.csv";
  const std::string given = "simulate.metric.curve=" + curve.string();
  const auto with = [&](const std::string& rows) {
    REQUIRE(write_file_atomically(curve, "samples,accuracy,loss\n" + rows).is_ok());
    return paceline("run", {"sync.policy=dtssp", given, "sync.lpr.window_clocks=2"}, "", Force::kTwice);
  };
  CHECK(with("0,0.1,2.3\n320,0.5,1\n640,0.6,0.8\n") == 0);
  CHECK(with("") == 2);
  CHECK(with("0,0.1,2.3\n0,0.5,1\n") == 2);
  CHECK_THAT(paceline.refusal(), Contains("curve.csv:3: samples is '0', expected a number above"));
  CHECK(with("0,1.5,2.3\n") == 2);
  CHECK_THAT(paceline.refusal(), Contains("accuracy is '1.5'"));
  CHECK(with("0,0.5,-1\n") == 2);
}

// Nothing in the plain run that a trace knows better.
const std::vector<std::string> kAsTraced{"simulate.compute.distribution=emulated",
                                         "simulate.compute.mean=null"};

TEST_CASE("a_trace_gives_each_worker_its_own_computations_again") {
  Command paceline;
  const std::vector<std::string> real{"sync.policy=bsp",          "simulate.compute.distribution=lognormal",
                                      "simulate.compute.cv=0.4",  "simulate.compute.slowdown=[1, 2]",
                                      "simulate.costs.batch=3ms", "train.total_iterations=4000"};
  REQUIRE(paceline("real", real) == 0);
  REQUIRE(
      paceline("again",
               {"sync.policy=ssp", "run.seed=11", "train.total_iterations=4000", kAsTraced[0], kAsTraced[1]},
               (paceline / "real").string()) == 0);
  const auto assumed = load_config((paceline / "again" / "config.yaml").string(), {});
  REQUIRE(assumed);
  CHECK(assumed->simulate.costs.batch == std::chrono::milliseconds(3));
  CHECK(assumed->simulate.compute == SimulatedCompute{});
  CHECK_THAT(files_of(paceline / "again").at("config.yaml"),
             Contains("computations are drawn from the trace"));
  const auto before = read_phases(paceline / "real").value();
  const auto after = read_phases(paceline / "again").value();
  for (std::size_t w = 0; w < 2; ++w) {
    const PhaseStat& was = before[w].totals[Phase::kComputeGrads];
    const PhaseStat& is = after[w].totals[Phase::kComputeGrads];
    CHECK(static_cast<double>(is.total_ns) == Approx(static_cast<double>(was.total_ns)).epsilon(0.04));
    for (const double q : {0.1, 0.5, 0.9}) {
      CHECK(static_cast<double>(quantile_ns(is, q)) ==
            Approx(static_cast<double>(quantile_ns(was, q))).epsilon(0.08));
    }
    CHECK(after[w].totals[Phase::kBatch].total_ns == 2000 * std::int64_t{3'000'000});
  }
}

TEST_CASE("under_a_traced_run_s_computations_seeds_draw_nothing_and_five_of_them_are_no_sample") {
  Command paceline;
  REQUIRE(paceline("real", {"run.trace=true", "sync.policy=bsp", "simulate.compute.slowdown=[1, 1.5]",
                            "simulate.compute.distribution=lognormal"}) == 0);
  ReportOptions options{.compare = true};
  for (const char* policy : {"bsp", "asp"}) {
    for (const char* seed : {"1", "2", "3", "4", "77"}) {
      const std::string out = std::string(policy) + "-" + seed;
      REQUIRE(paceline(out,
                       {kAsTraced[0], kAsTraced[1], std::string("sync.policy=") + policy,
                        std::string("run.seed=") + seed},
                       (paceline / "real").string()) == 0);
      options.runs.push_back((paceline / out).string());
    }
  }
  CHECK(files_of(paceline / "bsp-1").at("phases.csv") == files_of(paceline / "bsp-77").at("phases.csv"));
  std::ostringstream out, err;
  REQUIRE(report(options, out, err) == 0);
  CHECK_THAT(out.str(), Contains(" (the same with each seed)\n") &&
                            Contains("5 seeds: no verdict: the same with each seed, so one run each") &&
                            Contains("no winner: the seeds draw nothing"));
}

TEST_CASE("a_run_between_machines_is_simulated_and_traced_without_keys") {
  Command paceline;
  const std::string between = "cluster.endpoints=[\"tcp://alpha:5555\"]";
  REQUIRE(paceline("real", {between}) == 0);
  CHECK(paceline("again", {between, kAsTraced[0], kAsTraced[1]}, (paceline / "real").string()) == 0);
}

// Passes that add own updates again, and reads whose parameters have been copied in, are no copies.
TEST_CASE("a_trace_of_a_simulated_run_gives_its_costs_back_and_so_does_a_trace_of_that") {
  Command paceline;
  std::string traced;
  for (const char* out : {"first", "second", "third"}) {
    std::vector<std::string> given{"sync.policy=ssp", "sync.threshold=3", "cluster.nodes=4",
                                   "cluster.threads_per_node=2", "train.total_iterations=4000"};
    if (traced.empty()) {
      given.insert(given.end(), {"simulate.compute.distribution=lognormal", "simulate.compute.cv=0.5",
                                 "simulate.costs.copy=1", "simulate.costs.local_apply=2"});
    } else {
      given.insert(given.end(), kAsTraced.begin(), kAsTraced.end());
    }
    INFO(out);
    REQUIRE(paceline(out, given, traced) == 0);
    const auto assumed = load_config((paceline / out / "config.yaml").string(), {});
    REQUIRE(assumed);
    CHECK(assumed->simulate.costs.copy == Approx(1.0).epsilon(0.05));
    CHECK(assumed->simulate.costs.local_apply == Approx(2.0).epsilon(0.05));
    traced = (paceline / out).string();
  }
}

TEST_CASE("a_trace_gives_links_their_bandwidths_back_one_for_each_node_where_they_are_asked_for") {
  Command paceline;
  REQUIRE(paceline("real", {"simulate.network.bandwidth=[64MiB, 4MiB]"}) == 0);
  const auto traced = [&](const std::string& given) {
    REQUIRE(paceline("again", {kAsTraced[0], kAsTraced[1], "simulate.network.bandwidth=" + given},
                     (paceline / "real").string(), Force::kTwice) == 0);
    return load_config((paceline / "again" / "config.yaml").string(), {})->simulate.network.bandwidth;
  };
  const auto each = traced("[1GiB, null]");
  REQUIRE(each.size() == 2);
  CHECK(static_cast<double>(each[0].value()) == Approx(64 << 20).epsilon(0.03));
  CHECK(static_cast<double>(each[1].value()) == Approx(4 << 20).epsilon(0.03));
  // One for all is that of the exchanges that were quickest.
  const auto all = traced("1GiB");
  REQUIRE(all.size() == 1);
  CHECK(static_cast<double>(all[0].value()) == Approx(64 << 20).epsilon(0.03));
  // Exchanges of another kind are no measure of it.
  REQUIRE(paceline("reduced",
                   {kAsTraced[0], kAsTraced[1], "exchange.kind=allreduce", "simulate.network.bandwidth=1GiB"},
                   (paceline / "real").string()) == 0);
  CHECK(
      load_config((paceline / "reduced" / "config.yaml").string(), {})->simulate.network.bandwidth.front() ==
      1 << 30);
}

TEST_CASE("what_would_go_unread_beside_a_trace_is_refused_by_name") {
  Command paceline;
  REQUIRE(paceline("real", {}) == 0);
  const std::string real = (paceline / "real").string();
  CHECK(paceline("again", {}, real) == 2);
  CHECK_THAT(paceline.refusal(),
             Contains("run.yaml: simulate.compute.distribution: computations are drawn") &&
                 Contains("got constant, expected emulated without its mean"));
  // Where the configuration emulates, its own draws are taken, whatever they are.
  CHECK(paceline("again", {"emulate.base_step=50ms"}, real) == 0);
  CHECK(paceline("other", kAsTraced, real) == 0);
}

TEST_CASE("a_trace_of_other_computations_or_messages_is_refused_by_name_and_what_to_do_is_said") {
  Command paceline;
  REQUIRE(paceline("real", {}) == 0);
  const std::string real = (paceline / "real").string();
  for (const auto& [argument, name] : std::vector<std::pair<std::string, std::string>>{
           {"cluster.nodes=3", "cluster.nodes, got 2, expected 3"},
           {"cluster.threads_per_node=2", "cluster.threads_per_node, got 1, expected 2"},
           {"train.layers=[{kind: flatten}, {kind: dense, out: 5}, {kind: dense, out: 10}]",
            "the model's parameters (train.model), got 30730, expected 15425"},
           {"train.batch_size=64", "train.batch_size, got 32, expected 64"},
           {"train.device=cuda", "train.device, got cpu, expected cuda"},
           {"train.precision=bf16", "train.precision, got fp32, expected bf16"},
           {"train.accumulate=2", "train.accumulate, got 1, expected 2"},
           {"train.optimizer.kind=adam", "train.optimizer.kind, got sgd, expected adam"},
           {"cluster.frame_bytes=4096", "cluster.frame_bytes, got 524288, expected 4096"},
           {"cluster.gradient_encoding=int8", "cluster.gradient_encoding, got fp32, expected int8"},
           {"cluster.parameter_encoding=bf16", "cluster.parameter_encoding, got fp32, expected bf16"}}) {
    CHECK(paceline("again", {kAsTraced[0], kAsTraced[1], argument}, real) == 2);
    CHECK_THAT(paceline.refusal(), Contains("a trace of other computations or messages: " + name));
  }
  const std::string two = "cluster.endpoints=[tcp://127.0.0.1:5555, tcp://127.0.0.1:5556]";
  CHECK(paceline("again", {kAsTraced[0], kAsTraced[1], "cluster.shards=2", two}, real) == 2);
  CHECK_THAT(paceline.refusal(),
             Contains("a trace of other computations or messages: cluster.shards, got 1, expected 2"));
  CHECK(paceline("again", kAsTraced, (paceline / "nowhere").string()) == 2);
  CHECK_THAT(paceline.refusal(), Contains("nowhere"));
  // Whose worker 1.0 had nothing to do.
  REQUIRE(paceline("idle", {"train.total_iterations=1"}) == 0);
  CHECK(paceline("again", kAsTraced, (paceline / "idle").string()) == 2);
  CHECK_THAT(paceline.refusal(), Contains("worker 1.0 has no COMPUTE_GRADS"));
  // Of iterations of several sizes, and which had which is not recorded.
  REQUIRE(paceline("unequal", {"train.batch_balance=speed", "sync.combine=mean"}) == 0);
  const std::string unequal = (paceline / "unequal").string();
  CHECK(paceline("again", kAsTraced, unequal) == 2);
  CHECK_THAT(paceline.refusal(), Contains("mini-batches had several sizes, got train.batch_balance: speed"));
  CHECK(paceline("again", {"emulate.base_step=50ms", kAsTraced[0], kAsTraced[1]}, unequal) == 0);
}

TEST_CASE("a_trace_of_another_top_k_share_is_refused_by_name") {
  Command paceline;
  const std::vector<std::string> top{"cluster.gradient_encoding=top_k", "cluster.top_k_share=0.1"};
  REQUIRE(paceline("real", top) == 0);
  const std::string real = (paceline / "real").string();
  CHECK(paceline("same", {kAsTraced[0], kAsTraced[1], top[0], top[1]}, real) == 0);
  CHECK(paceline("again", {kAsTraced[0], kAsTraced[1], top[0], "cluster.top_k_share=0.2"}, real) == 2);
  CHECK_THAT(paceline.refusal(), Contains("cluster.top_k_share, got 0.1") && Contains("expected 0.2"));
}

TEST_CASE("a_trace_of_a_run_that_did_not_end_well_is_refused_and_says_how_it_ended") {
  Command paceline;
  const auto refused = [&](const char* run, const std::string& reported) {
    CHECK(paceline("again", kAsTraced, (paceline / run).string()) == 2);
    CHECK_THAT(paceline.refusal(),
               Contains("no trace: got a run that ended with " + reported + ", expected"));
  };
  REQUIRE(paceline("lost", {"simulate.events=[{at: 1s, node: 1, kind: crash}]"}) == 0);
  refused("lost", "1 nodes lost");
  REQUIRE(paceline("cut", {"run.max_seconds=500ms"}) == 0);
  refused("cut", "10 of 20 iterations");
  REQUIRE(paceline("real", {}) == 0);
  REQUIRE(paceline("again", kAsTraced, (paceline / "real").string()) == 0);
  fs::remove_all(paceline / "again");
  RunSummary summary = read_summary(paceline / "real").value();
  summary.status = "invalid";
  summary.reason = "20 of 20 steps overran";
  REQUIRE(write_summary(paceline / "real", summary).is_ok());
  refused("real", "invalid (20 of 20 steps overran)");
}

// In the middle of a run of some length; the exact number depends on how large the numbers in them are.
TEST_CASE("headers_are_as_long_as_the_codec_makes_them") {
  const std::vector<float> values(1000);
  const wire::Payload payload{nullptr, reinterpret_cast<const std::byte*>(values.data()), 4000};
  const wire::Push push{WorkerId(3, 2), Clock(5000), 393'216, false, 0, Version(4998), Revision(80'000)};
  const wire::Parameters parameters{9000, ShardId(1), Version(4998), Revision(80'000), 393'216, false, {}};
  const auto push_bytes = wire::encode({push, payload});
  const auto parameters_bytes = wire::encode({parameters, payload});
  REQUIRE(push_bytes);
  REQUIRE(parameters_bytes);
  CAPTURE(push_bytes->size(), parameters_bytes->size());
  CHECK(std::abs(static_cast<std::int64_t>(push_bytes->size()) - simulate::kPushHeaderBytes) <= 4);
  CHECK(std::abs(static_cast<std::int64_t>(parameters_bytes->size()) - simulate::kParametersHeaderBytes) <=
        4);
}

}  // namespace
}  // namespace paceline::test
