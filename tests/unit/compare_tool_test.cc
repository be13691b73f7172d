// `paceline report --compare`: which runs are one policy's, what cannot be compared, and that nobody wins who
// should not. Runs are written as the daemons and the simulator write them, and read from their directories.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/laboratory.h"

namespace paceline {

TEST_CASE("runs_that_differ_by_seed_and_folder_alone_are_one_policy_s_and_are_paired_by_seed") {
  Laboratory lab;
  add_pairs(lab, 5);
  const auto json = lab.json();
  REQUIRE(json["groups"].size() == 2);
  CHECK(json["groups"][0]["name"] == "bsp");
  CHECK(json["groups"][1]["name"] == "ssp(3)");
  CHECK(json["groups"][1]["runs"].size() == 5);
  const auto& pair = json["tables"][0]["pairs"][0];
  CHECK(pair["seeds"] == 5);
  CHECK(pair["mean"].get<double>() == Approx(-10.3));
  // The scatter of 0.1, 0.2, ... is 0.158114; t(0.975; 4) = 2.776445; / sqrt(5).
  CHECK(pair["high"].get<double>() == Approx(-10.3 + 0.196324).epsilon(1e-6));
  CHECK(pair["verdict"] == "second_is_better");
  CHECK(json["tables"][0]["winner"] == "ssp(3)");
  CHECK_THAT(lab.compare().out,
             Contains("time at 100 iterations, s") && Contains("winner: ssp(3)") && Contains("Real runs"));
}

TEST_CASE("four_seeds_give_differences_and_no_winner") {
  Laboratory lab;
  add_pairs(lab, 4);
  const Shown shown = lab.compare();
  CHECK_THAT(shown.out,
             Contains("no winner: fewer than 5 seeds") && Contains("ssp(3) - bsp") && !Contains("is faster"));
}

TEST_CASE("groups_of_one_policy_are_named_by_what_differs_and_shown_with_it") {
  Laboratory lab;
  std::vector<std::string> lazy = kSsp;
  lazy.emplace_back("sync.refresh_clocks=null");
  lab.run(1, 10, kSsp).run(1, 11, lazy).run(1, 12, {"sync.policy=dtssp", "train.optimizer.lr=0.5"});
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 3);
  CHECK(groups[0]["name"] == "ssp(3) sync.refresh_clocks=1");
  CHECK(groups[1]["name"] == "ssp(3) sync.refresh_clocks=null");
  CHECK(groups[2]["name"] == "dtssp(3, 3-10)");
  CHECK(groups[2]["differing"]["train.optimizer.lr"] == "0.5");
}

TEST_CASE("where_sockets_data_and_folders_are_makes_no_other_group_but_another_transport_does") {
  Laboratory lab;
  const auto at = [](const std::string& endpoint, const std::string& more) {
    std::vector<std::string> given = kBsp;
    given.insert(given.end(), {"cluster.endpoints=[\"" + endpoint + "\"]", more});
    return given;
  };
  lab.run(1, 10, at("ipc:///tmp/a/0", "data.path=/data/a")).run(2, 10, at("ipc:///tmp/b/0", "run.name=b"));
  CHECK(lab.json()["groups"].size() == 1);
  lab.run(3, 10, at("tcp://127.0.0.1:5555", "run.log_level=debug"));
  CHECK(lab.json()["groups"].size() == 2);
}

// A script that makes keys for each run has a folder of its own for each, too.
TEST_CASE("whether_there_are_keys_makes_another_group_and_where_they_are_does_not") {
  Laboratory lab;
  const auto with = [](const std::string& security) {
    std::vector<std::string> given = kBsp;
    given.insert(given.end(), {"cluster.endpoints=[\"tcp://alpha:5555\"]", security});
    return given;
  };
  lab.run(1, 10, with("security.keys=/tmp/run-1.keys")).run(2, 10, with("security.keys=/tmp/run-2.keys"));
  CHECK(lab.json()["groups"].size() == 1);
  lab.run(3, 10, with("security.allow_insecure=true")).run(4, 10, with("security.keys=null"));
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 2);
  CHECK(groups[0]["name"] == "bsp security.keys=given");
  CHECK(groups[1]["name"] == "bsp security.keys=null");
}

TEST_CASE("other_work_is_refused_with_the_key_and_both_runs") {
  const std::pair<const char*, const char*> cases[] = {
      {"train.batch_size=64", "train.batch_size is 64, expected 128 as in "},
      {"cluster.nodes=3", "cluster.nodes is 3, expected 2 as in "},
      {"cluster.threads_per_node=2", "cluster.threads_per_node is 2, expected 1 as in "},
      {"train.total_iterations=200", "train.total_iterations is 200, expected 100 as in "},
      {"data.kind=cifar10", "data.kind is cifar10, expected synthetic as in "},
      {"train.model=cifar_cnn", "train.model is cifar_cnn, expected cifar_cnn_small as in "}};
  for (const auto& [other, message] : cases) {
    Laboratory lab;
    lab.run(1, 10, kBsp).run(1, 10, kSsp);
    lab.run(2, 10, kSsp).change(other);
    const Shown shown = lab.compare();
    CHECK(shown.status == 2);
    CHECK(shown.out.empty());
    CHECK_THAT(shown.err, Contains(lab.path(2) + ": " + message + lab.path(0)));
  }
}

TEST_CASE("another_cluster_is_refused_also_a_simulated_one_and_another_trace") {
  const auto with = [](std::vector<std::string> policy, const std::string& more) {
    policy.insert(policy.end(), {"emulate.base_step=300ms", more});
    return policy;
  };
  const auto simulated = [](RunSummary& s) { s.simulated_seed = 1; };
  const std::pair<const char*, const char*> cases[] = {
      {"simulate.costs.message=1ms", "simulate.costs.message is 20us, expected 1ms as in "},
      {"simulate.network.latency=3ms", "simulate.network.latency is 100us, expected 3ms as in "},
      {"simulate.metric.final_accuracy=0.5", "simulate.metric.final_accuracy is null"},
      {"emulate.slowdown=[1, 2]", "emulate.slowdown is []"}};
  for (const auto& [key, message] : cases) {
    Laboratory lab;
    lab.run(1, 10, with(kBsp, key), simulated).run(1, 9, with(kSsp, "run.name=b"), simulated);
    const Shown shown = lab.compare();
    CHECK(shown.status == 2);
    CHECK_THAT(shown.err, Contains(lab.path(1) + ": " + message));
  }
  Laboratory real;  // nothing was simulated
  real.run(1, 10, with(with(kBsp, "emulate.base_step=1s"), "simulate.network.latency=3ms"));
  real.run(1, 9, with(with(kSsp, "emulate.base_step=1s"), "emulate.cores=7"));
  CHECK(real.compare().status == 0);
  Laboratory traced;
  traced.run(1, 10, kBsp, [](RunSummary& s) { s.simulated_seed = 1, s.trace = "0a"; });
  traced.run(1, 9, kSsp, [](RunSummary& s) { s.simulated_seed = 1, s.trace = "0b"; });
  CHECK_THAT(traced.compare().err,
             Contains(traced.path(1) + ": computations are drawn from another trace (0b) than those of " +
                      traced.path(0) + " (0a), expected the same"));
}

TEST_CASE("where_the_data_was_is_shown_when_the_groups_had_it_elsewhere") {
  Laboratory lab;
  std::vector<std::string> full = kBsp, tenth = kSsp;
  full.emplace_back("data.path=/data/full");
  tenth.emplace_back("data.path=/data/tenth");
  lab.run(1, 10, full).run(1, 2, tenth);
  // What an epoch was taken for says nothing of where it is, nor how many the same iterations were called.
  full.emplace_back("data.train_samples=6400");
  full.emplace_back("train.total_epochs=2");
  lab.run(2, 10, full);
  const auto groups = lab.json()["groups"];
  REQUIRE(groups.size() == 2);
  CHECK(groups[0]["name"] == "bsp");
  CHECK(groups[0]["differing"]["data.path"] == "/data/full");
  CHECK(groups[1]["differing"]["data.path"] == "/data/tenth");
}

TEST_CASE("the_relative_change_is_of_the_seeds_that_both_have") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    lab.run(seed, 20.0, kBsp).run(seed, 10.0 - 0.1 * static_cast<double>(seed), kSsp);
  }
  lab.run(6, 1000.0, kBsp);
  CHECK(lab.json()["tables"][0]["pairs"][0]["relative"].get<double>() == Approx(-10.3 / 20.0));
  CHECK_THAT(lab.compare().out, Contains("  -51.50 %  p "));
}

TEST_CASE("runs_of_which_every_seed_is_a_copy_have_no_p_and_no_winner") {
  Laboratory lab;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) lab.run(seed, 20.0, kBsp).run(seed, 19.99, kSsp);
  const auto table = lab.json()["tables"][0];
  CHECK(table["pairs"][0]["verdict"] == "no_scatter");
  CHECK(table["pairs"][0]["p"].is_null());
  CHECK(table["pairs"][0]["adjusted_p"].is_null());
  CHECK(table["winner"].is_null());
  for (const auto& estimate : {table["pairs"][0], table["values"][0], table["values"][1]}) {
    CHECK(estimate["low"].is_null());
    CHECK(estimate["high"].is_null());
  }
  CHECK(table["values"][1]["mean"].get<double>() == Approx(19.99));
  CHECK_THAT(lab.compare().out,
             Contains("  19.990 (the same with each seed)\n") && Contains("  -0.010  -0.05 %"));
  CHECK_THAT(lab.compare().out, Contains("5 seeds: no verdict: the same with each seed, so one run each") &&
                                    Contains("no winner: the seeds draw nothing") && !Contains("  p 0"));
}

TEST_CASE("without_tests_the_time_is_to_training_accuracy_and_says_so") {
  Laboratory lab;
  std::vector<CurveRow> curve = curve_of({0.5, 0.7, 0.8, 0.9});
  for (CurveRow& row : curve) row.train_accuracy = std::exchange(row.test_accuracy, std::nullopt);
  const auto simulated = [](RunSummary& s) { s.simulated_seed = 1; };
  lab.run(1, 10, kBsp, simulated, curve).run(2, 10, kBsp, simulated);
  ReportOptions options;
  options.target = 0.8;
  const auto table = lab.json(options)["tables"][1];
  CHECK(table["title"] == "time to training accuracy 80.00 %");
  CHECK(table["values"][0]["by_seed"]["1"] == 40.0);
  CHECK_THAT(lab.compare(options).out,
             Contains("0 windows of training accuracy") && Contains("timing mode evaluates nothing"));
}

TEST_CASE("evaluations_at_other_instants_are_no_measure_of_one_time") {
  Laboratory lab;
  std::vector<std::string> coarse = kSsp;
  coarse.emplace_back("train.eval_every_clocks=50");
  lab.run(1, 10, kBsp, {}, curve_of({0.1, 0.2, 0.3})).run(1, 10, coarse);
  CHECK(lab.compare().status == 0);
  ReportOptions options;
  options.target = 0.2;
  CHECK_THAT(lab.compare(options).err, Contains("--target: ") && Contains("train.eval_every_clocks is 50"));
}

TEST_CASE("a_run_that_its_own_target_ended_at_one_evaluation_is_censored_with_that_reason") {
  Laboratory lab;
  std::vector<std::string> stopped = kBsp;
  stopped.insert(stopped.end(), {"run.target_accuracy=0.8", "train.eval_every_clocks=5"});
  lab.run(1, 10, stopped, [](RunSummary& s) { s.iterations = 60; }, curve_of({0.5, 0.7, 0.81}));
  ReportOptions options;
  options.target = 0.8;
  CHECK_THAT(lab.compare(options).out,
             Contains("ended by run.target_accuracy at the first single evaluation"));
}

TEST_CASE("a_real_and_a_simulated_run_are_not_compared") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(1, 10, kSsp, [](RunSummary& s) { s.simulated_seed = 1; });
  const Shown shown = lab.compare();
  CHECK(shown.status == 2);
  CHECK_THAT(shown.err, Contains(lab.path(1) + ": simulated, expected a real run as " + lab.path(0) + " is"));
}

TEST_CASE("one_seed_twice_is_refused_by_name") {
  Laboratory lab;
  lab.run(1, 10, kBsp).run(1, 11, kBsp);
  CHECK_THAT(lab.compare().err, Contains("same configuration and seed 1 as " + lab.path(0)));
}

TEST_CASE("a_run_that_failed_lost_a_node_or_ended_early_is_named_and_blocks_the_winner") {
  const std::pair<Laboratory::Change, const char*> cases[] = {
      {[](RunSummary& s) { s.status = "failed", s.reason = "not finite"; }, "failed (not finite)"},
      {[](RunSummary& s) { s.lost_nodes = 1; }, "1 nodes lost"},
      {[](RunSummary& s) { s.resumed_from = Version(7); }, "resumed"},
      {[](RunSummary& s) { s.iterations = 60; }, "60 of 100 iterations"}};
  for (const auto& [change, why] : cases) {
    Laboratory lab;
    add_pairs(lab, 6);
    lab.run(7, 100, kBsp).run(7, 1, kSsp, change);
    const Shown shown = lab.compare();
    CHECK_THAT(shown.out, Contains("censored " + lab.path(13) + ": " + why) &&
                              Contains("no winner: runs are censored") && Contains("1 of 7 runs censored"));
    // No figure of those that are left, which did well.
    CHECK_THAT(shown.out, Contains("-  1 of 7 runs censored\n") && Contains("-  no verdict: censored\n"));
  }
}

// Under bsp it ends in the same bits.
TEST_CASE("of_a_resumed_run_the_accuracy_counts_under_bsp_and_its_times_do_not") {
  Laboratory lab;
  const auto resumed = [](const char* policy) {
    return [policy](RunSummary& s) { s.policy = policy, s.test_accuracy = 0.8, s.resumed_from = Version(7); };
  };
  lab.run(1, 10, kBsp, resumed("bsp")).run(1, 9, kSsp, resumed("ssp"));
  const auto tables = lab.json()["tables"];
  REQUIRE(tables.size() == 2);
  CHECK(tables[0]["censored"].size() == 2);
  CHECK(tables[1]["key"] == "accuracy");
  CHECK(tables[1]["values"][0]["by_seed"]["1"] == Approx(80.0));
  CHECK(tables[1]["censored"] == nlohmann::json::array({lab.path(1) + ": resumed"}));
  // Each is named below its group.
  CHECK_THAT(lab.compare().out,
             Contains("  1 of 1 runs censored\n    censored " + lab.path(0) + ": resumed\n") &&
                 Contains("  1 of 1 runs censored\n    censored " + lab.path(1) + ": resumed\n"));
}

TEST_CASE("a_skipped_iteration_is_one_of_the_fixed_number") {
  Laboratory lab;
  lab.run(1, 10, kBsp, [](RunSummary& s) { s.iterations = 97, s.skipped = 3; });
  CHECK(lab.json()["tables"][0]["censored"].empty());
}

TEST_CASE("with_backup_workers_another_gradient_takes_the_place_of_a_skipped_one") {
  const auto censored = [](const char* share, std::int64_t iterations) {
    Laboratory lab;
    const std::vector<std::string> backup{"sync.policy=backup", std::string("train.share=") + share};
    lab.run(1, 10, backup,
            [=](RunSummary& s) { s.policy = "backup", s.iterations = iterations, s.skipped = 5; });
    return lab.json()["tables"][0]["censored"].size();
  };
  CHECK(censored("even", 96) == 1);
  CHECK(censored("even", 100) == 0);
  CHECK(censored("pool", 95) == 0);
}

}  // namespace paceline
