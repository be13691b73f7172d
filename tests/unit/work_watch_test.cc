// What a training thread is at, as the log tells it.
#include "worker/train/work_watch.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Work = WorkWatch::Work;

TEST_CASE("a thread that works says at what, for which clock, and on what it computes") {
  WorkWatch watch(WorkerId(3, 1), "GPU 1");
  CHECK_FALSE(watch.wait());
  watch.begin(Work::kBatch, Clock(117), Ticks(0));
  CHECK(watch.wait()->text == "worker 3.1 loads the mini-batch of clock 117");
  CHECK(watch.wait()->cause == "the mini-batch of clock 117 of worker 3.1");
  watch.end(Ticks(1));
  CHECK_FALSE(watch.wait());
  watch.begin(Work::kGradient, Clock(117), Ticks(1));
  CHECK(watch.wait()->text == "worker 3.1 computes the gradient of clock 117 on GPU 1");
  CHECK(watch.wait()->cause == "the gradient of clock 117 of worker 3.1");
}

TEST_CASE("where it computes is no word where that is the processor") {
  WorkWatch watch(WorkerId(0, 0), "");
  watch.begin(Work::kGradient, Clock(0), Ticks(0));
  CHECK(watch.wait()->text == "worker 0.0 computes the gradient of clock 0");
}

TEST_CASE("how long each kind of work usually takes is known from the second on") {
  WorkWatch watch(WorkerId(0, 0), "");
  const auto usual = [&](Work work) {
    watch.begin(work, Clock(9), Ticks(0));
    const auto known = watch.wait()->usual;
    watch.end(Ticks(0) + (work == Work::kBatch ? 2ms : 70ms));
    return known;
  };
  CHECK(usual(Work::kBatch) == 0ns);
  CHECK(usual(Work::kGradient) == 0ns);
  CHECK(usual(Work::kBatch) == 2ms);
  CHECK(usual(Work::kGradient) == 70ms);
}

TEST_CASE("a span of work is over with its block; without a watch it is nothing") {
  WorkWatch watch(WorkerId(0, 0), "");
  {
    const auto at_work = working(&watch, Work::kGradient, Clock(1));
    CHECK(watch.wait());
  }
  CHECK_FALSE(watch.wait());
  const auto unseen = working(nullptr, Work::kGradient, Clock(1));
}

}  // namespace
}  // namespace paceline
