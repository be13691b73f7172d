// A worker's gradient on its way to a fake exchange: what leaves while the rest is computed or looked at, who
// looks for what is not finite, and what is taken back.
#include "worker/train/gradient_upload.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/params/non_finite.h"
#include "tests/unit/train_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::grant_of;
using testing::TrainFixture;

TEST_CASE("a gradient that is not finite is reported, not pushed, and not applied locally") {
  TrainFixture f;
  f.task.on_compute = [](std::span<float> gradient) {
    gradient[1] = std::numeric_limits<float>::quiet_NaN();
  };
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.finish();
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(report->skipped == 1);
  CHECK(report->iterations == 0);
  CHECK(f.exchange.pushed.empty());
  REQUIRE(f.exchange.reported.size() == 1);
  CHECK(f.exchange.reported[0].skipped);
  CHECK(f.exchange.reported[0].fault == "gradient of w is nan at [1]");
  CHECK(f.training().cache.kept() == 0);
}

TEST_CASE(
    "where the run would end the servers look alone, and what is skipped or encoded the worker looks at, "
    "too") {
  CHECK_FALSE(worker_checks_finite(OnNan::kStop, Encoding::kFp32));
  CHECK(worker_checks_finite(OnNan::kStop, Encoding::kBf16));
  CHECK(worker_checks_finite(OnNan::kStop, Encoding::kTopK));
  CHECK(worker_checks_finite(OnNan::kStop, Encoding::kInt8));
  CHECK(worker_checks_finite(OnNan::kSkip, Encoding::kFp32));
}

TEST_CASE("a gradient that the servers look at leaves as it is; one without a loss does not, and says why") {
  TrainFixture f;
  f.checks_finite = false;
  f.exchange.at_once = 1;
  f.task.on_backward = [](std::span<float>, const FinalFrom& final_from) { final_from(1); };
  f.task.on_compute = [](std::span<float> gradient) { gradient[1] = std::nanf(""); };
  f.exchange.grant(grant_of(4, Threshold(3), 4));
  f.exchange.finish();
  SECTION("its loss is finite") {
    REQUIRE(f.run()->skipped == 0);
    CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{1});
    CHECK(f.exchange.pushed.size() == 1);
    CHECK(f.exchange.reported.at(0).fault.empty());
  }
  SECTION("its loss is not") {
    f.task.loss_sum = std::nan("");
    REQUIRE(f.run()->skipped == 1);
    CHECK(f.exchange.pushed.empty());
    CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(4)});
    CHECK(f.exchange.reported.at(0).fault == "gradient of w is nan at [1]");
  }
}

TEST_CASE("what is final leaves while the rest is computed, and what it hid is beside the phases") {
  TrainFixture f;
  f.exchange.early = {7ms, 4};
  std::vector<std::size_t> left;  // at each point of the backward pass
  f.task.on_backward = [&](std::span<float>, const FinalFrom& final_from) {
    left.push_back(f.exchange.pushed_from.size());
    for (const std::int64_t begin : {2, 1, 1}) {  // given twice, and of nothing
      final_from(begin);
      left.push_back(f.exchange.pushed_from.size());
    }
  };
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.grant(grant_of(1, Threshold(3), 0));
  f.exchange.finish();
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(left == std::vector<std::size_t>{0, 0, 1, 1, 1, 1, 2, 2});
  CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{1, 1});
  CHECK(f.exchange.pushed.size() == 2);
  CHECK(f.exchange.withdrawn.empty());
  CHECK(report->bytes_early == 8);
  CHECK(report->phases[Phase::kPsApplyGrads].hidden_ns == std::chrono::nanoseconds(14ms).count());
}

TEST_CASE(
    "once something is not finite nothing more leaves, what has left is withdrawn, and the first is named") {
  const bool first_too = GENERATE(false, true);
  TrainFixture f;
  f.task.on_backward = [&](std::span<float> gradient, const FinalFrom& final_from) {
    final_from(1);
    gradient[0] = std::numeric_limits<float>::infinity();
    final_from(0);
  };
  if (first_too) {
    f.task.on_compute = [](std::span<float> gradient) { gradient[1] = std::nanf(""); };
  }
  f.exchange.grant(grant_of(4, Threshold(3), 4));
  f.exchange.finish();
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(f.exchange.pushed_from == std::vector<std::int64_t>(first_too ? 0 : 1, 1));
  CHECK(f.exchange.pushed.empty());
  CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(4)});
  REQUIRE(f.exchange.reported.size() == 1);
  CHECK(f.exchange.reported[0].skipped);
  CHECK(f.exchange.reported[0].fault == "gradient of w is infinite at [0]");
  CHECK(report->skipped == 1);
}

TEST_CASE("a gradient that is computed leaves part by part while the rest is looked at, not as early") {
  TrainFixture f;
  f.exchange.at_once = 1;
  f.exchange.grant(grant_of(4, Threshold(3), 4));
  f.exchange.finish();
  SECTION("all of it is finite") {
    REQUIRE(f.run().is_ok());
    CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{1});
    CHECK(f.exchange.pushed.size() == 1);
    CHECK(f.exchange.withdrawn.empty());
  }
  SECTION("what is looked at last is not") {
    f.task.on_compute = [](std::span<float> gradient) { gradient[0] = std::nanf(""); };
    REQUIRE(f.run()->skipped == 1);
    CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{1});
    CHECK(f.exchange.pushed.empty());
    CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(4)});
    CHECK(f.exchange.reported.at(0).fault == "gradient of w is nan at [0]");
  }
  SECTION("what is looked at first is not, and the first of it is named") {
    f.task.on_compute = [](std::span<float> gradient) { gradient[0] = gradient[1] = std::nanf(""); };
    REQUIRE(f.run()->skipped == 1);
    CHECK(f.exchange.pushed_from.empty());
    CHECK(f.exchange.reported.at(0).fault == "gradient of w is nan at [0]");
  }
  SECTION("the loss is not") {
    f.task.loss_sum = std::nan("");
    REQUIRE(f.run()->skipped == 1);
    CHECK(f.exchange.pushed_from.empty());
  }
}

TEST_CASE("a loss that is not finite takes a gradient back that is") {
  TrainFixture f;
  f.task.loss_sum = std::nan("");
  f.task.on_backward = [](std::span<float>, const FinalFrom& final_from) { final_from(0); };
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.finish();
  REQUIRE(f.run().is_ok());
  CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{0});
  CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(0)});
  CHECK(f.exchange.pushed.empty());
}

TEST_CASE("a task that fails after some of its gradient has left takes that back") {
  TrainFixture f;
  SECTION("an error of its own") {
    f.task.on_backward = [](std::span<float>, const FinalFrom& final_from) { final_from(1); };
    f.task.outcome = data_loss("the device is gone");
  }
  SECTION("final from where there is nothing: remembered, and nothing more leaves") {
    const std::int64_t nowhere = GENERATE(-1, 3);
    f.task.on_backward = [nowhere](std::span<float>, const FinalFrom& final_from) {
      for (const std::int64_t begin : {std::int64_t{1}, nowhere, std::int64_t{0}}) final_from(begin);
    };
  }
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  const Status status = f.run().status();
  if (f.task.outcome.is_ok()) {
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK_THAT(status.message(), Catch::Contains("worker 0.0 at clock 0: the task says") &&
                                     Catch::Contains("expected one in [0, 2]"));
  } else {
    CHECK(status.message() == "worker 0.0 at clock 0: the device is gone");
  }
  CHECK(f.exchange.pushed_from == std::vector<std::int64_t>{1});
  CHECK(f.exchange.withdrawn == std::vector<Clock>{Clock(0)});
  CHECK(f.exchange.pushed.empty());
  CHECK(f.exchange.reported.empty());
}

TEST_CASE("nothing leaves before the emulated end of a step") {
  TrainFixture f;
  f.emulate.base_step = 100ms;
  f.task.on_backward = [](std::span<float>, const FinalFrom& final_from) { final_from(1); };
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.finish();
  REQUIRE(f.run().is_ok());
  CHECK(f.exchange.pushed_from.empty());
  CHECK(f.exchange.pushed.size() == 1);
}

TEST_CASE("what is not finite is named: tensor and place, or the loss") {
  Layout layout;
  REQUIRE(layout.add("a", {2}).is_ok());
  REQUIRE(layout.add("b", {2, 3}).is_ok());
  std::vector<float> gradient(8, 1.0F);
  CHECK(describe_non_finite(Metric{1.0, 0, 1}, gradient, {}, layout).empty());
  CHECK(describe_non_finite(Metric{std::nan(""), 0, 1}, gradient, {}, layout) == "loss is nan");
  gradient[6] = std::numeric_limits<float>::infinity();
  CHECK(describe_non_finite(Metric{1.0, 0, 1}, gradient, 6, layout) == "gradient of b is infinite at [1, 1]");
}

}  // namespace
}  // namespace paceline
