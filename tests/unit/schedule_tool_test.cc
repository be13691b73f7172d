// `paceline schedule`: of a pipeline the cut and what stages sum, and what it is not asked of.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/unit/temp_folder.h"
#include "tools/schedule.h"

namespace paceline {
namespace {

// Two groups of two stages, of 24584 and 90 parameters.
constexpr const char* kTwoGroups =
    "{cluster: {nodes: 4}, exchange: {kind: allreduce, on_loss: stop, algorithm: ring}, pipeline: {stages: "
    "2, "
    "micro_batches: 2}, train: {total_iterations: 40, batch_size: 4, model: layers, layers: [{kind: "
    "flatten}, "
    "{kind: dense, out: 8}, {kind: dense, out: 10}]}, simulate: {network: {latency: 1ms}, costs: {message: "
    "0s, apply: 0}}}";

struct Printed {
  int status;
  std::string out;
  std::string err;
};

Printed scheduled(const std::vector<std::string>& overrides, const PipelineCut& cut = {},
                  const ScheduleTable& table = {}) {
  const testing::TempFolder folder;
  ScheduleOptions options;
  options.path = (folder.path() / "run.yaml").string();
  std::ofstream(options.path) << kTwoGroups;
  options.overrides = overrides;
  options.cut = cut;
  options.table = table;
  std::ostringstream out, err;
  const int status = schedule_plan(options, out, err);
  return {status, out.str(), err.str()};
}

using Catch::Contains;

TEST_CASE("a_schedule_of_stages_shows_who_sums_with_whom_and_how_long") {
  const Printed reported = scheduled({});
  CHECK(reported.err.empty());
  CHECK_THAT(reported.out, Contains("2 stages, 2 group(s), 2 micro-batches of 4 samples, gpipe"));
  CHECK_THAT(reported.out,
             Contains("stage 0: nodes 0, 2 sum 24584 floats, checked, one bucket after another 2 ms\n"
                      "  bucket 0: floats 0..24584, ring, up to 98336 bytes from a node, 2 ms\n"
                      "stage 1: nodes 1, 3 sum 90 floats, checked, one bucket after another 2 ms\n"
                      "  bucket 0: floats 24584..24674, ring, up to 360 bytes from a node, 2 ms\n"));
  // Of halves the second one is copied after the last bucket.
  CHECK_THAT(scheduled({"exchange.shard_optimizer=true", "exchange.bucket_bytes=32"}).out,
             Contains("one bucket after another 4 ms, of it the copies at the end 2 ms\n"
                      "  bucket 0: floats 24576..24584, ring, up to 32 bytes from a node, 1 ms\n"
                      "  bucket 1: floats 0..24576, ring"));
  CHECK_THAT(scheduled({"cluster.gradient_encoding=bf16"}).out, Contains("up to 180 bytes from a node"));
  CHECK_THAT(scheduled({"simulate.network.bandwidth=[1000000000, 1024, 1000000000, 1024]"}).out,
             Contains("stage 0: nodes 0, 2 sum 24584 floats, checked, one bucket after another 2.1 ms\n") &&
                 Contains("ring, up to 360 bytes from a node, 377 ms\n"));
  CHECK_THAT(scheduled({"cluster.nodes=2"}).out,
             Contains("one group: no stage has another node to sum with"));
  CHECK_THAT(scheduled({"cluster.nodes=20"}).out, Contains("stage 1: nodes 1, 3 .. 19 (10) sum 90 floats"));
  const Printed served =
      scheduled({"exchange.kind=server", "exchange.on_loss=null", "exchange.algorithm=null"});
  CHECK((served.status == 0 && served.out.find("sum") == std::string::npos));
}

TEST_CASE("a_schedule_of_an_all_reduce_shows_each_plan_once_and_how_long_all_take") {
  const std::vector<std::string> sums = {"pipeline.stages=1", "pipeline.micro_batches=1", "cluster.nodes=2",
                                         "exchange.bucket_bytes=440",
                                         "train.layers=[{kind: flatten}, {kind: dense, out: 10}, {kind: "
                                         "dense, out: 10}, {kind: dense, out: 10}]"};
  const Printed reported = scheduled(sums);
  CHECK(reported.err == "");
  CHECK_THAT(reported.out, Contains("30950 floats in 3 bucket(s), 2 node(s), algorithm ring\n"
                                    "\n"
                                    "bucket 0: floats 30840..30950, checked, takes 2 ms\n"
                                    "ring, 2 ranks, 110 floats\n"
                                    "rank 0: sends 110 floats\n"
                                    "  0  send 64..110 to 1\n") &&
                               Contains("\nbucket 1: floats 30730..30840, as bucket 0\n"
                                        "\n"
                                        "bucket 2: floats 0..30730, checked, takes 2 ms\n") &&
                               Contains("\none after another 6 ms, with links without a limit"));
  std::vector<std::string> parts = sums;
  parts.emplace_back("exchange.shard_optimizer=true");
  CHECK_THAT(scheduled(parts).out, Contains("takes 2 ms, of it the copies at the end 1 ms\n") &&
                                       Contains("one after another 6 ms, of it the copies at the end 3 ms"));
  // Sums go to a keeper, too.
  parts.emplace_back("exchange.on_loss=go_on");
  CHECK_THAT(scheduled(parts).out,
             Contains("bucket 0: floats 30840..30950, checked, takes 3 ms, of it the copies at the end 1 ms\n"
                      "ring, 2 ranks, 110 floats\n"
                      "rank 0: sends 174 floats\n"
                      "  0  send 64..110 to 1\n"
                      "  1  add 0..64 from 1\n"
                      "  2  send 0..64 to 1, after 1\n"
                      "  3  receive 64..110 from 1, after 0\n"
                      "  4  send 0..64 to 1, after 1\n"));
  // No sum of small buckets is at one node.
  parts.emplace_back("exchange.algorithm=auto");
  CHECK_THAT(scheduled(parts).out, Contains("\nbinary_blocks, 2 ranks, 110 floats\n"));
  parts.insert(parts.end(), {"cluster.nodes=3", "train.total_iterations=42"});
  CHECK_THAT(scheduled(parts).out, Contains("\nring, 3 ranks, 110 floats\n"));
}

TEST_CASE("a_schedule_of_chunks_shows_whose_they_are_and_what_each_stage_sums") {
  const std::vector<std::string> interleaved = {
      "pipeline.schedule=interleaved",
      "train.layers=[{kind: flatten}, {kind: dense, out: 8}, {kind: dense, out: 8}, {kind: dense, out: 8}, "
      "{kind: dense, out: 10}]"};
  const Printed reported = scheduled(interleaved);
  CHECK(reported.err.empty());
  CHECK_THAT(reported.out,
             Contains("2 stages of 2 chunks, 2 group(s), 2 micro-batches of 4 samples, interleaved"));
  CHECK_THAT(reported.out, Contains("chunk 2, of stage 0: layers fc3 .. fc3 (1), 72 parameters"));
  CHECK_THAT(reported.out,
             Contains("stage 0: F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1\n  keeps activations of at most 2 "
                      "and 2 micro-batch(es) of its chunks, "));
  CHECK_THAT(reported.out, Contains("bubble: 20.0 % with equal stages"));
  // What a stage's chunks have lies together.
  CHECK_THAT(reported.out, Contains("stage 0: nodes 0, 2 sum 24656 floats") &&
                               Contains("floats 24656..24818") &&
                               Contains("stage 1: nodes 1, 3 sum 162 floats"));
  const Printed measured = scheduled(interleaved, {true, {1.0, 2.0}});
  CHECK(measured.err.empty());
  CHECK_THAT(measured.out, Contains("pipeline.balance: [2, 1, 1, 1]"));
}

TEST_CASE("a_measured_schedule_says_the_step_with_its_sums_and_its_cut_as_a_list") {
  const Printed reported = scheduled({}, {true, {1.0, 2.0}});
  CHECK(reported.err.empty());
  CHECK_THAT(reported.out,
             Contains("ms of computing, as measured here, and ") && Contains(" ms with the sums\n"));
  CHECK_THAT(reported.out, Contains("pipeline.balance: [2, 1], as the configuration cuts it already\n"));
  // Three layers of one size after the first, which costs nothing, and a small one: by far not the next best cut.
  const std::string equal =
      "train.layers=[{kind: flatten}, {kind: dense, out: 128}, {kind: dense, out: 3072}, {kind: dense, out: "
      "128}, {kind: dense, out: 10}]";
  CHECK_THAT(scheduled({equal}, {true, {1.0, 3.0}}).out,
             Contains("pipeline.balance: [2, 3], as the configuration"));
  CHECK_THAT(scheduled({equal}, {true, {6.0, 1.0}}).out, Contains("pipeline.balance: [4, 1]\n"));
}

// The figures of docs/PERFORMANCE.md.
TEST_CASE("a_table_of_ranks_and_bytes_says_from_how_many_ranks_on_halving_doubling_is_faster_than_the_ring") {
  const std::vector<std::string> one_stage = {
      "pipeline.stages=1",          "pipeline.micro_batches=null",
      "exchange.on_loss=null",      "simulate.network.latency=20us",
      "simulate.costs.message=5us", "simulate.network.bandwidth=1250000000",
      "simulate.costs.apply=0.25"};
  const Printed reported =
      scheduled(one_stage, {},
                {.ranks = {4, 6, 16, 64},
                 .bytes = {4'000, 4'000'000},
                 .algorithms = {schedule::Algorithm::kRing, schedule::Algorithm::kHalvingDoubling}});
  CHECK(reported.err.empty());
  CHECK_THAT(
      reported.out,
      Contains("ms, with 1250000000 bytes a second, latency 20 us, 5 us for each message and 0.25 ns for "
               "each float added") &&
          Contains("   4000      4  0.185             0.125  halving_doubling\n") &&
          Contains("4000000     16   7.14              8.41  ring\n") &&
          Contains("checked\nof 4000 bytes faster than ring throughout: halving_doubling\n"
                   "of 4000000 bytes faster than ring from 64 ranks on: halving_doubling\n"));
  CHECK_THAT(reported.out, Contains("-  ring"));  // six are no power of two
  CHECK_THAT(scheduled({}, {}, {.ranks = {4}}).err, Contains("--ranks: got it with pipeline.stages above 1"));
}

TEST_CASE("of_a_loop_s_own_model_the_schedule_is_that_of_equal_stages") {
  const Printed reported = scheduled({"pipeline.balance=loop"});
  CHECK(reported.status == 0);
  CHECK_THAT(reported.out, Contains("its stages are taken to be equal") &&
                               Contains("\nchecked\nstage 0: F0 F1") && Contains("\nstage 1  ") &&
                               Contains("% with equal stages\n"));
}

TEST_CASE("what_no_schedule_can_be_made_of_is_refused_by_its_key") {
  struct Case {
    std::vector<std::string> overrides;
    PipelineCut cut;
    const char* why;
  };
  for (const Case& bad : std::vector<Case>{
           {{}, {true, {1.0}}, "--speeds: got 1, expected one for each of 2 stages, with --measure"},
           {{}, {false, {1.0, 2.0}}, "--speeds: got 2, expected one for each of 2 stages, with --measure"},
           {{"pipeline.balance=loop"}, {true, {}}, "--measure: got it with pipeline.balance: loop"},
           {{"pipeline.stages=1", "pipeline.micro_batches=null"},
            {true, {}},
            "--measure and --speeds: got them with pipeline.stages: 1"},
           {{"pipeline.stages=1", "pipeline.micro_batches=null", "exchange.kind=server",
             "exchange.on_loss=null", "exchange.algorithm=null"},
            {},
            "exchange.kind is server, expected allreduce, or pipeline.stages above 1"}}) {
    const Printed reported = scheduled(bad.overrides, bad.cut);
    CHECK(reported.status == 2);
    CHECK_THAT(reported.err, Contains(bad.why));
  }
}

}  // namespace
}  // namespace paceline
