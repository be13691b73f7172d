// Keys in epochs against versions found by hand, what they cannot mean, and what is said of a rate.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "common/params/rates.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using testing::refusal;
using Overrides = std::vector<std::string>;

// Goyal et al., 2017: 5, 30, 60 and 80 of 90 epochs.
const std::string kGoyal =
    "cluster: {nodes: 64}\n"
    "data: {kind: cifar10, path: data}\n"
    "train:\n"
    "  batch_size: 32\n"
    "  total_epochs: 90\n"
    "  optimizer:\n"
    "    kind: momentum\n"
    "    lr: 0.1\n"
    "    schedule: {scale: linear, kind: multistep, warmup_epochs: 5, step_at_epochs: [30, 60, 80]}\n";

RunConfig load(const Overrides& given, std::vector<std::string>* notes = nullptr) {
  const auto config = parse_config(kGoyal, "run.yaml", given, LoadFor::kReading, notes);
  INFO(config.status().message());
  REQUIRE(config.is_ok());
  return *config;
}

// A version has 32 x 64 = 2,048 of 50,000 samples: 122.07, 732.4, 1464.8, 1953.1 and 2197.3.
TEST_CASE("epochs_are_the_nearest_number_of_versions_and_the_configuration_says_both") {
  std::vector<std::string> notes;
  const RunConfig config = load({}, &notes);
  const ScheduleSection& schedule = config.train.optimizer.schedule;
  CHECK(schedule.warmup_versions == 122);
  CHECK(schedule.step_at == std::vector<std::int64_t>{732, 1465, 1953});
  CHECK(config.train.total_iterations == 2197 * 64);
  CHECK_FALSE(config.data.train_samples.has_value());
  REQUIRE(notes.size() == 6);
  CHECK(notes[0] == "train.total_epochs: 90 epochs are 2197 rounds of 2048 samples");
  CHECK(notes[1] == "train.optimizer.schedule.warmup_epochs: 5 epochs are 122 versions of 2048 samples");
  CHECK(notes[5] ==
        "train.optimizer.schedule.base_batch: not given, so lr is taken for steps of 256 samples");
  CHECK((schedule.warmup_epochs == 5.0 && config.train.total_epochs == 90.0));
  CHECK(schedule.step_at_epochs == std::vector<double>{30, 60, 80});
  CHECK(parse_config(to_yaml(config), "again", {}, LoadFor::kReading).value() == config);
}

TEST_CASE("epochs_of_a_data_set_of_any_size_go_by_what_a_version_has") {
  const auto warmup = [](const Overrides& given) {
    return load(given).train.optimizer.schedule.warmup_versions;
  };
  CHECK(warmup({"data.kind=synthetic", "data.train_samples=1281167"}) == 3128);  // ImageNet: 625.57 an epoch
  CHECK(warmup({"cluster.nodes=1"}) == 7813);                                    // 7812.5
  CHECK(warmup({"sync.policy=backup", "sync.backup_workers=32"}) == 244);        // 32 of 64 make a version
  CHECK(warmup({"sync.policy=asp"}) == 122);  // one iteration of each worker, however they are applied
  CHECK(warmup({"train.optimizer.schedule.warmup_epochs=0.03"}) == 1);  // 0.73
  const RunConfig local = load({"train.local_steps=10", "train.inner_optimizer.schedule.kind=cosine",
                                "train.inner_optimizer.schedule.warmup_epochs=2",
                                "train.inner_optimizer.schedule.total_epochs=80",
                                "train.optimizer.schedule.scale=none", "train.optimizer.lr=1"});
  CHECK(local.train.inner_optimizer.schedule.warmup_versions == 49);   // 48.8 mini-batches of each worker
  CHECK(local.train.inner_optimizer.schedule.total_versions == 1953);  // 1953.1
  CHECK(local.train.total_iterations == 220 * 640);                    // 219.7 rounds of 10 for each worker
  CHECK(load({"train.optimizer.schedule.kind=step", "train.optimizer.schedule.step_at_epochs=[]",
              "train.optimizer.schedule.step_epochs=30"})
            .train.optimizer.schedule.step_versions == 732);
}

TEST_CASE("an_argument_in_versions_or_in_epochs_is_over_the_file_in_the_other") {
  CHECK(load({"train.optimizer.schedule.warmup_versions=7"}).train.optimizer.schedule.warmup_versions == 7);
  CHECK(load({"train.total_iterations=128000"}).train.total_iterations == 128'000);
  const Overrides back = {"train.optimizer.schedule.kind=constant",
                          "train.optimizer.schedule.step_at_epochs=null"};
  CHECK(load(back).train.optimizer.schedule.step_at.empty());
  CHECK_FALSE(load({"train.total_iterations=128000"}).train.total_epochs.has_value());
  CHECK(counted_key("train.total_epochs") == "train.total_iterations");
  CHECK(counted_key("train.optimizer.schedule.step_at_epochs") == "train.optimizer.schedule.step_at");
  CHECK(counted_key("train.inner_optimizer.schedule.warmup_epochs") ==
        "train.inner_optimizer.schedule.warmup_versions");
  CHECK(counted_key("train.batch_size") == "train.batch_size");
}

// A recorded configuration says both. Another length may be asked for in either way; where an argument makes a version
// of other samples, as many epochs are other versions.
TEST_CASE("a_file_that_says_versions_and_epochs_alike_is_one_and_an_argument_is_over_either") {
  const std::string recorded = to_yaml(load({}));
  const auto with = [&](const Overrides& given) {
    const auto config = parse_config(recorded, "run.yaml", given, LoadFor::kReading);
    INFO(config.status().message());
    REQUIRE(config.is_ok());
    return *config;
  };
  CHECK(with({"train.total_epochs=180"}).train.total_iterations == 4395 * 64);
  CHECK_FALSE(with({"train.total_iterations=64000"}).train.total_epochs.has_value());
  CHECK_FALSE(with({"train.total_iterations=140608"}).train.total_epochs.has_value());  // that of the file
  const ScheduleSection halved = with({"cluster.nodes=32"}).train.optimizer.schedule;
  CHECK((halved.warmup_versions == 244 && halved.warmup_epochs == 5.0));
  CHECK(halved.step_at == std::vector<std::int64_t>{1465, 2930, 3906});
  // Where an argument leaves open what an epoch has, the file's versions count.
  const RunConfig pool =
      with({"sync.policy=asp", "sync.apply=null", "sync.combine=null", "train.share=pool"});
  CHECK((pool.train.optimizer.schedule.warmup_versions == 122 && pool.train.total_epochs == 90.0));
  CHECK_FALSE(pool.train.optimizer.schedule.warmup_epochs.has_value());
  const RunConfig unknown = with({"data.kind=synthetic", "data.path=null"});
  CHECK((unknown.train.total_iterations == 2197 * 64 && !unknown.train.total_epochs));
  CHECK(unknown.train.optimizer.schedule.step_at == std::vector<std::int64_t>{732, 1465, 1953});
  std::string changed = recorded;
  changed.replace(changed.find("warmup_versions: 122"), 20, "warmup_versions: 121");
  CHECK_THAT(refusal(changed), Contains("schedule.warmup_epochs: given twice, got 122 here, and in "
                                        "train.optimizer.schedule.warmup_versions 121, expected one of the "
                                        "two, or the same"));
}

TEST_CASE("an_argument_in_either_form_takes_away_what_the_file_says_in_both") {
  const std::string at = "train.optimizer.schedule.";
  const std::string recorded = to_yaml(load({}));
  const auto schedule = [&](const std::string& file, const Overrides& given) {
    const auto config = parse_config(file, "run.yaml", given, LoadFor::kReading);
    INFO(config.status().message());
    REQUIRE(config.is_ok());
    return config->train.optimizer.schedule;
  };
  for (const char* form : {"step_at=null", "step_at_epochs=null", "step_at_epochs=[]"}) {
    const ScheduleSection constant = schedule(recorded, {at + "kind=constant", at + form});
    CHECK((constant.step_at.empty() && constant.step_at_epochs.empty()));
  }
  const ScheduleSection other = schedule(recorded, {at + "step_at=[10, 20]", at + "warmup_versions=7"});
  CHECK((other.step_at == std::vector<std::int64_t>{10, 20} && other.step_at_epochs.empty()));
  CHECK((other.warmup_versions == 7 && !other.warmup_epochs));
  // What the file does not say cannot be taken back.
  const std::string in_versions = to_yaml(load({at + "step_at=[10, 20]", at + "warmup_versions=7"}));
  const ScheduleSection kept = schedule(in_versions, {at + "step_at_epochs=null", at + "warmup_epochs=null"});
  CHECK((kept.step_at.size() == 2 && kept.warmup_versions == 7));
}

TEST_CASE("a_step_behind_the_end_and_a_scale_by_the_default_mini_batch_are_warned_of") {
  std::vector<std::string> notes;
  load({"train.optimizer.schedule.step_at_epochs=[30, 95]", "train.optimizer.schedule.base_batch=256"},
       &notes);
  CHECK(
      notes.back() ==
      "train.optimizer.schedule.step_at_epochs: the run ends with version 2197, so there is no step at 2319");
  CHECK(notes.size() == 5);
  load({"train.optimizer.schedule.scale=none"}, &notes);
  CHECK(notes.size() == 10);
  // The fast do more of a pool.
  load({"sync.policy=asp", "train.share=pool", "train.optimizer.schedule.step_at=[30, 2197]",
        "train.optimizer.schedule.warmup_versions=0", "train.optimizer.schedule.base_batch=256"},
       &notes);
  CHECK_THAT(notes.back(),
             Contains("step_at: the run ends with version 2197 at the latest, so there is no step at 2197"));
}

TEST_CASE("a_run_whose_length_was_said_in_epochs_is_the_same_run_with_one_in_iterations") {
  const std::string file =
      "cluster: {nodes: 2}\ndata: {kind: cifar10, path: data}\ntrain: {batch_size: 50, total_epochs: 10}\n";
  const auto of = [&](const Overrides& given) {
    const auto config = parse_config(file, "run.yaml", given, LoadFor::kReading);
    REQUIRE(config.is_ok());
    return fingerprint(*config, AgreedBy::kRun);
  };
  CHECK(of({"train.total_iterations=20000"}) == of({}));
  CHECK(of({"train.total_epochs=20"}) == of({}));
  CHECK(of({"data.train_samples=50000"}) == of({}));
  CHECK(of({"train.optimizer.schedule.warmup_epochs=1"}) ==
        of({"train.optimizer.schedule.warmup_versions=500"}));
  CHECK(of({"train.batch_size=25"}) != of({}));
}

TEST_CASE("epochs_whose_samples_are_not_known_are_refused_by_file_line_and_key") {
  struct Case {
    Overrides given;
    const char* start;
  };
  for (const Case& bad : std::vector<Case>{
           {{"data.path=null"}, "run.yaml:5: train.total_epochs: how many samples an epoch has is not known"},
           {{"data.kind=synthetic", "train.total_iterations=128000"},
            "run.yaml:9: train.optimizer.schedule.warmup_epochs: how many samples an epoch has is not known, "
            "got no data.train_samples, expected data.train_samples, as many as `paceline data "
            "synthesize` has printed"},
           {{"sync.policy=asp", "train.share=pool"},
            "run.yaml:9: train.optimizer.schedule.warmup_epochs: how many samples a version has is not "
            "known, "
            "got share: pool with policy: asp"},
           {{"train.local_steps=10", "train.local_time=1s"},
            "run.yaml:5: train.total_epochs: how many samples a round has is not known, got "
            "train.local_time"},
           {{"train.optimizer.schedule.warmup_epochs=3", "train.optimizer.schedule.warmup_versions=3"},
            "command line: train.optimizer.schedule.warmup_epochs: given twice"},
           {{"train.optimizer.schedule.warmup_epochs=100"},
            "command line: train.optimizer.schedule.warmup_epochs: the warm-up is longer than the run"},
           {{"train.total_epochs=4"},
            "run.yaml:9: train.optimizer.schedule.warmup_epochs: the warm-up is longer than the run"},
           {{"train.optimizer.schedule.step_at_epochs=[30, 20]"},
            "command line: train.optimizer.schedule.step_at_epochs: the steps are not in order, got [732, "
            "488] versions"},
           {{"train.optimizer.schedule.kind=constant"},
            "run.yaml:9: train.optimizer.schedule.step_at_epochs: nobody reads it, got [30, 60, 80], "
            "expected kind: multistep, or no value (null)"},
           {{"data.train_samples=1000000000000", "train.total_epochs=1000"},
            "command line: train.total_epochs: too long"},
           {{"train.optimizer.schedule.warmup_epochs=0.001"},
            "command line: train.optimizer.schedule.warmup_epochs: less than half a step of all workers, got "
            "0.001 epochs, which are 0.024 versions of 2048 samples, expected more, or no value (null)"},
           {{"train.total_epochs=0"}, "command line: train.total_epochs: "}}) {
    CHECK_THAT(refusal(kGoyal, bad.given), StartsWith(bad.start));
  }
}

TEST_CASE("a_run_says_what_scale_and_warm_up_make_of_its_rate") {
  CHECK(rate_text(load({})) ==
        "learning rate 0.1 x 8 = 0.8 for 2048 samples a step, after 122 versions of warm-up from 0.1");
  CHECK(rate_text(load({"train.optimizer.schedule.scale=none"})) ==
        "learning rate 0.1, after 122 versions of warm-up from 0.000819672");
  CHECK(rate_text(
            load({"train.optimizer.schedule.scale=root", "train.optimizer.schedule.warmup_versions=0"})) ==
        "learning rate 0.1 x 2.82843 = 0.282843 for 2048 samples a step");
  CHECK(rate_text(load({"train.optimizer.schedule.scale=none", "train.optimizer.schedule.warmup_versions=0"}))
            .empty());
}

TEST_CASE("the_rate_that_is_shown_is_that_of_the_mini_batches") {
  const RunConfig config = load({"cluster.nodes=8"});  // one worker's rate: 977 versions, lr x 1, then x 0.1
  CHECK(shown_rate(config, Version(5858), 0) == Approx(0.1));
  CHECK(shown_rate(config, Version(5859), 0) == Approx(0.01));  // 30 epochs are 5859.4
  const RunConfig local =
      load({"cluster.nodes=8", "train.local_steps=10", "train.inner_optimizer.lr=0.4",
            "train.inner_optimizer.schedule.kind=exp", "train.inner_optimizer.schedule.gamma=0.5",
            "train.optimizer.schedule.scale=none", "train.optimizer.lr=1"});
  CHECK(shown_rate(local, Version(1), 0) == Approx(0.4 / 1024));  // ten mini-batches of each worker
  const RunConfig stages =
      load({"sync.policy=switch", "train.optimizer.schedule.scale=none",
            "sync.stages=[{policy: bsp, lr_scale: 4, until: {version: 9}}, {policy: ssp}]"});
  CHECK(shown_rate(stages, Version(200), 0) == Approx(0.4));
  CHECK(shown_rate(stages, Version(200), 1) == Approx(0.1));
}

}  // namespace
}  // namespace paceline
