// One worker's iterations on a fake exchange: what it computes with, what it sends, and what it does when an
// emulated step does not fit or the task fails.
#include <array>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/unit/recording_vectors.h"
#include "tests/unit/train_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::grant_of;
using testing::TrainFixture;

TEST_CASE("an iteration pushes its gradient under its clock and then reports it") {
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.finish();
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(report->iterations == 1);
  REQUIRE(f.exchange.pushed.size() == 1);
  CHECK(f.exchange.pushed[0].clock == Clock(0));
  CHECK(f.exchange.pushed[0].samples == 2);
  CHECK(f.exchange.pushed[0].computed_version == Version(0));
  REQUIRE(f.exchange.reported.size() == 1);
  CHECK_FALSE(f.exchange.reported[0].skipped);
  CHECK(f.exchange.reported[0].metric.correct == 1);
}

TEST_CASE("reads that a cache answers send nothing: SSP, refresh only when required") {
  TrainFixture f;
  f.refresh_clocks.reset();
  for (std::int64_t c = 0; c <= 2; ++c) f.exchange.grant(grant_of(c, Threshold(3), c));
  f.exchange.finish();
  REQUIRE(f.run().is_ok());
  CHECK(f.training().step.reads() == 3);
  CHECK(f.training().step.server_reads() == 1);
  CHECK(f.exchange.requested == std::vector<Version>{Version(0)});  // the first read of all
  for (std::int64_t c = 0; c <= 2; ++c) {
    const auto i = static_cast<std::size_t>(c);
    CHECK((f.exchange.pushed[i].own_updates == c && f.exchange.reported[i].own_updates == c));
  }
  // Own gradients are in what it computed with all the same: lr 1, gradient 1, from 0.
  CHECK(f.task.computed_with[2] == std::vector<float>{-2, -2});
}

TEST_CASE("a read that finds its cache fresh enough sends nothing, however often it is refreshed") {
  const bool every_clock = GENERATE(true, false);
  TrainFixture f;
  if (!every_clock) f.refresh_clocks.reset();
  constexpr std::int64_t kReads = 5;
  for (std::int64_t c = 0; c < kReads; ++c) f.exchange.grant(grant_of(c, Threshold(10), c));
  f.exchange.finish();
  // What was asked for after the push, here or by another thread, is there when the grant is.
  f.exchange.on_report = [&] {
    const auto next = static_cast<std::int64_t>(f.exchange.pushed.size());
    f.cache.install(ShardId(0), testing::slice_of(TrainFixture::kAll, next, {Clock(next)}, {0, 0}));
  };
  std::size_t before = 0;
  std::vector<std::size_t> sent;  // by each read
  f.exchange.before_instruction = [&] { before = f.exchange.requested.size(); };
  f.task.on_load = [&] { sent.push_back(f.exchange.requested.size() - before); };
  REQUIRE(f.run().is_ok());
  CHECK(sent == std::vector<std::size_t>{1, 0, 0, 0, 0});
  CHECK(f.training().step.server_reads() == 1);
  // Kept fresh at every clock, each read has had a transfer of its own, after the push; else none has.
  CHECK(f.exchange.requested.size() == (every_clock ? 1 + kReads : 1));
}

TEST_CASE(
    "under eager the refresh leaves ahead of the push, and what was copied in is a state and the own "
    "gradient") {
  TrainFixture f;
  f.exchange.apply = ApplyMode::kEager;
  constexpr std::int64_t kClocks = 4;
  for (std::int64_t c = 0; c < kClocks; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), c));
  f.exchange.finish();
  // The pull of clock c finds all own gradients but that of c there, and -10 for another worker's each.
  f.exchange.serve = [&](Version) {
    const auto n = std::max<std::int64_t>(0, std::ssize(f.exchange.requested) - 2);
    const auto value = -11.0F * static_cast<float>(n);
    return std::vector{testing::slice_of(TrainFixture::kAll, 0, {Clock(n)}, {value, value}, 2 * n)};
  };
  REQUIRE(f.run().is_ok());
  // One for the first read, then one with each push, made when that was: none is asked for after it.
  CHECK(f.exchange.requested_at_push == std::vector<std::size_t>{2, 3, 4, 5});
  CHECK(f.exchange.requested.size() == 1 + kClocks);
  for (std::size_t c = 1; c < kClocks; ++c) {
    const float value = -11.0F * static_cast<float>(c - 1) - 1.0F;
    CHECK(f.task.computed_with[c] == std::vector<float>{value, value});
  }
  CHECK(f.training().step.server_reads() == 1);  // the others were there with the grant
}

TEST_CASE(
    "after the push a refresh under eager has the own gradient, and is copied in before the grant is looked "
    "for") {
  TrainFixture f;
  f.exchange.apply = ApplyMode::kEager;
  f.pulls_before_push = false;
  constexpr std::int64_t kClocks = 4;
  for (std::int64_t c = 0; c < kClocks; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), c));
  f.exchange.finish();
  // The pull of clock c finds all own gradients there, and -10 for another worker's each.
  f.exchange.serve = [&](Version) {
    const auto n = std::ssize(f.exchange.requested) - 1;
    const auto value = -11.0F * static_cast<float>(n);
    return std::vector{testing::slice_of(TrainFixture::kAll, 0, {Clock(n)}, {value, value}, 2 * n)};
  };
  std::size_t granted_before_landing = 0;
  f.exchange.before_instruction = [&, grants = std::size_t{0}]() mutable {
    granted_before_landing += grants++ > 0 && !f.training_if_made()->step.installed_early();
  };
  REQUIRE(f.run().is_ok());
  CHECK(f.exchange.requested_at_push == std::vector<std::size_t>{1, 2, 3, 4});
  CHECK(f.exchange.requested.size() == 1 + kClocks);
  CHECK(granted_before_landing == 0);
  for (std::size_t c = 0; c < kClocks; ++c) {
    const float value = -11.0F * static_cast<float>(c);
    CHECK(f.task.computed_with[c] == std::vector<float>{value, value});
  }
  CHECK(f.training().step.server_reads() == 1);
}

TEST_CASE(
    "where one slice is copied in and the other stays, both have the own gradient, and the latter at the "
    "end") {
  const Range left{0, 1};
  const Range right{1, 2};
  TrainFixture f({left, right});
  f.exchange.apply = ApplyMode::kEager;
  for (std::int64_t c = 0; c < 3; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), 0));
  f.exchange.finish();
  f.exchange.serve = [&, asked = 0](Version) mutable -> std::vector<std::shared_ptr<Slice>> {
    using testing::slice_of;
    switch (asked++) {
      case 0:
        return {slice_of(left, 0, {Clock(0)}, {0}), slice_of(right, 0, {Clock(0)}, {0})};
      case 1:
        return {slice_of(left, 0, {Clock(0)}, {-10}, 1), nullptr};  // another worker's
      case 2:
        return {nullptr, slice_of(right, 0, {Clock(1)}, {-20}, 2)};  // and the own of clock 0
      default:
        return {nullptr, nullptr};
    }
  };
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(f.task.computed_with == std::vector<std::vector<float>>{{0, 0}, {-11, -1}, {-12, -21}});
  CHECK(report->phases[Phase::kPCacheParam].count == 3);
  CHECK(report->phases[Phase::kApplyGrads].count == 2);
  CHECK(report->phases[Phase::kTCacheParam].count == 0);
}

TEST_CASE("who is told that nothing follows waits for no parameters") {
  TrainFixture f;
  f.exchange.apply = ApplyMode::kEager;
  for (std::int64_t c = 0; c < 2; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), c));
  f.exchange.finish();
  f.exchange.finishes_early = true;
  int awaited = 0;
  f.exchange.while_awaiting = [&] { ++awaited; };
  REQUIRE(f.run().is_ok());
  CHECK(f.exchange.requested.size() == 3);
  CHECK(awaited == 2);  // the first read, and what was asked for ahead of the first push
}

TEST_CASE(
    "a read waits for a server where parameters come after the grant, not where they are copied in after "
    "it") {
  const bool behind = GENERATE(false, true);
  TrainFixture f;
  f.exchange.apply = ApplyMode::kEager;
  constexpr std::int64_t kClocks = 3;
  for (std::int64_t c = 0; c < kClocks; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), c));
  f.exchange.finish();
  f.exchange.serve = [&, n = std::int64_t{0}](Version) mutable {
    const std::int64_t revision = n++;
    return std::vector{testing::slice_of(TrainFixture::kAll, 0, {Clock(revision)}, {0, 0}, revision)};
  };
  // Taken once they have been copied in, each grant arrived 10 ms before: 5 ms after them, or 5 ms before them.
  f.exchange.arrives_before = 10ms;
  f.exchange.after_installing = [&] { f.time.pass(behind ? 5ms : 15ms); };
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(f.training().step.server_reads() == (behind ? kClocks : 1));
  const auto first = behind ? 5ms : 15ms;
  const auto others = (behind ? 5ms : 10ms) * (kClocks - 1);  // an exchange takes 5 or 15 ms in all
  CHECK(report->phases[Phase::kPsParam].total_ns == std::chrono::nanoseconds(first + others).count());
}

TEST_CASE("what is fetched ahead while it computes is hidden time, until it is there or the gradient is") {
  const bool arrives = GENERATE(true, false);
  TrainFixture f;
  f.refresh_clocks.reset();
  for (std::int64_t c = 0; c <= 3; ++c) f.exchange.grant(grant_of(c, Threshold(3), c));
  f.exchange.finish();
  struct ElsewhereOnly final : ParameterSink {
    bool copy_in(ShardId, const cache::SliceStamp&, const SlicePiece&) override { return false; }
  } elsewhere;
  f.task.on_load = [&] { f.time.pass(7ms); };
  f.task.on_compute = [&](std::span<float>) {
    f.time.pass(30ms);
    const bool asked = f.exchange.requested.size() == 2;  // at clock 3, for version 1
    if (asked && arrives) CHECK(f.exchange.await_parameters(1, elsewhere).is_ok());
    f.time.pass(20ms);
  };
  const auto report = f.run();
  REQUIRE(report.is_ok());
  REQUIRE(f.exchange.requested.size() >= 2);
  CHECK(f.exchange.requested[1] == Version(1));
  const std::chrono::nanoseconds hidden = arrives ? 30ms : 50ms;
  CHECK(report->phases[Phase::kPsParam].hidden_ns == hidden.count());
}

TEST_CASE("a newer version that another thread brought is copied from the process cache, without a request") {
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.grant(grant_of(1, Threshold(3), 1));
  f.exchange.finish();
  f.exchange.on_report = [&] {
    f.cache.install(ShardId(0), testing::slice_of(TrainFixture::kAll, 1, {Clock(1)}, {5, 5}));
  };
  REQUIRE(f.run().is_ok());
  CHECK(f.training().step.server_reads() == 1);
  CHECK(f.task.computed_with[1] == std::vector<float>{5, 5});
}

TEST_CASE("an emulated iteration lasts its time from its start, and one that does not fit is an overrun") {
  TrainFixture f;
  f.emulate.base_step = 100ms;
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.grant(grant_of(1, Threshold(3), 0));
  f.exchange.finish();
  const Ticks begin = f.time.now();
  f.task.on_load = [&] { f.time.pass(10ms); };
  std::vector<std::chrono::nanoseconds> ended;
  f.exchange.on_report = [&] { ended.push_back(f.time.now() - begin); };
  int computed = 0;
  f.task.on_compute = [&](std::span<float>) { f.time.pass(computed++ == 0 ? 50ms : 120ms); };
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(ended == std::vector<std::chrono::nanoseconds>{100ms, 230ms});
  CHECK(report->overruns == 1);
}

// The fixture's batch_size is 1.
TEST_CASE("an emulated iteration lasts in proportion to its samples, and is an overrun by that") {
  TrainFixture f;
  f.emulate.base_step = 100ms;
  for (const std::int64_t samples : {3, 1}) {
    step::Grant grant = grant_of(samples == 3 ? 0 : 1, Threshold(3), 0);
    grant.batch = {samples == 3 ? 0 : 3, samples};
    f.exchange.grant(grant);
  }
  f.exchange.finish();
  const Ticks begin = f.time.now();
  std::vector<std::chrono::nanoseconds> ended;
  f.exchange.on_report = [&] { ended.push_back(f.time.now() - begin); };
  f.task.on_compute = [&](std::span<float>) { f.time.pass(120ms); };
  const auto report = f.run();
  REQUIRE(report.is_ok());
  CHECK(ended == std::vector<std::chrono::nanoseconds>{300ms, 420ms});
  CHECK(report->overruns == 1);
  REQUIRE(f.task.steps.size() == 2);
  CHECK(f.task.steps[0].batch == BatchPart{0, 3});
  CHECK(f.task.steps[1].batch == BatchPart{3, 1});
}

TEST_CASE("parameters that are copied in after the grant are in the time of an emulated iteration") {
  TrainFixture f;
  f.exchange.apply = ApplyMode::kEager;
  f.emulate.base_step = 100ms;
  f.exchange.grant(grant_of(0, Threshold::infinite(), 0));
  f.exchange.grant(grant_of(1, Threshold::infinite(), 1));
  f.exchange.finish();
  f.exchange.arrives_before = 30ms;
  f.exchange.after_installing = [&, reads = 0]() mutable {
    if (++reads == 2) f.time.pass(40ms);
  };
  const Ticks begin = f.time.now();
  std::vector<std::chrono::nanoseconds> ended;
  f.exchange.on_report = [&] { ended.push_back(f.time.now() - begin); };
  REQUIRE(f.run().is_ok());
  // 40 ms after the first step's end they are there, 30 ms after the grant.
  CHECK(ended == std::vector<std::chrono::nanoseconds>{100ms, 210ms});
}

TEST_CASE("a grant that does not move the clock on ends its worker, in words") {
  TrainFixture f;
  f.exchange.grant(grant_of(3, Threshold(3), 3));
  f.exchange.grant(grant_of(3, Threshold(3), 3));
  CHECK_THAT(f.run().status().message(), Catch::Contains("granted clock 3, expected one above 3"));
}

TEST_CASE("a task that fails ends its worker, with worker and clock in the message") {
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(0), 0));
  f.exchange.serve = [&](Version) { return std::vector<std::shared_ptr<Slice>>{}; };
  f.task.on_load = [] {};
  class Failing final : public Task {
   public:
    Status load(const Step&) override { return data_loss("the disk is gone"); }
    Result<Metric> compute(std::span<const float>, std::span<float>, const FinalFrom&) override {
      return Metric{};
    }
    Result<Metric> evaluate(std::span<const float>) override { return Metric{}; }
  } failing;
  WorkerContext& t = f.training();
  WorkerContext broken{.worker = t.worker,
                       .layout = t.layout,
                       .deadline = t.deadline,
                       .coordinator = t.coordinator,
                       .exchange = t.exchange,
                       .process_cache = t.process_cache,
                       .task = failing,
                       .pace = t.pace,
                       .step = step::WorkerStep({f.refresh_clocks}),
                       .cache = ThreadCache(OptimizerSection{}, f.cache.ranges(), 0),
                       .gradients = GradientBuffers(2),
                       .emulator = t.emulator,
                       .phases = PhaseRecorder(f.clock),
                       .clock = f.clock};
  CHECK(run_trainer(broken).status().message() == "worker 0.0 at clock 0: the disk is gone");
}

TEST_CASE("a pass over the thread cache that fails ends the step, and nothing is sent of it") {
  const bool reading = GENERATE(true, false);  // or in the local apply
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  recorded->fails_at = reading ? "take" : "keep";
  f.vectors = std::make_unique<testing::RecordingVectors>(recorded);
  CHECK(f.run().status().message() == "worker 0.0 at clock 0: the GPU fell off the bus");
  CHECK((f.exchange.pushed.empty() && f.exchange.reported.empty()));
  CHECK(f.exchange.withdrawn.size() == (reading ? 0 : 1));
  // The parameters were the task's own.
  const std::vector<std::vector<float>> elsewhere(reading ? 0 : 1);
  CHECK(f.task.computed_with == elsewhere);
}

TEST_CASE("gradients that a device has copies of stay gradients, however scarce their buffers are") {
  const bool device = GENERATE(true, false);
  TrainFixture f;
  f.refresh_clocks.reset();
  for (std::int64_t c = 0; c <= 3; ++c) f.exchange.grant(grant_of(c, Threshold::infinite(), 0));
  f.exchange.finish();
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  if (device) f.vectors = std::make_unique<testing::RecordingVectors>(recorded);
  // All are with a transport that is late while parameters are read.
  std::vector<std::shared_ptr<GradientBuffers::Buffer>> late;
  f.exchange.on_report = [&] {
    while (f.training().gradients.ready()) late.push_back(f.training().gradients.acquire(0s).value());
  };
  f.task.on_load = [&] { late.clear(); };
  REQUIRE(f.run().is_ok());
  CHECK(f.training().cache.kept() == 4);
  CHECK(f.training().cache.differences() == (device ? 0 : 2));
}

TEST_CASE("what a read still asks of a device when the step computes is the read's time") {
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(3), 0));
  f.exchange.finish();
  f.task.on_compute = [&](auto) { f.time.pass(10ms); };
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  recorded->device_overlap = 4ms;
  f.vectors = std::make_unique<testing::RecordingVectors>(recorded);
  REQUIRE(f.run().is_ok());
  const PhaseTotals totals = f.training().phases.totals();
  CHECK(totals[Phase::kPCacheParam].total_ns == std::chrono::nanoseconds(4ms).count());
  CHECK(totals[Phase::kComputeGrads].total_ns == std::chrono::nanoseconds(6ms).count());
}

TEST_CASE("of a worker whose exchange was closed is left what it has done, without its last wait") {
  TrainFixture f;
  f.exchange.grant(grant_of(0, Threshold(0), 0));
  f.task.on_compute = [&](auto) { f.time.pass(10ms); };
  f.exchange.before_instruction = [&] { f.time.pass(40s); };  // the second time nothing comes
  CHECK(f.run().status().message() == "the script is over");
  const WorkDone report = unfinished_work(f.training());
  CHECK(report.iterations == 1);
  CHECK(report.phases.wall_ns == std::chrono::nanoseconds(10ms).count());
  CHECK(unaccounted_ns(report.phases) == 0);
}

TEST_CASE("gradient buffers come back when the transport lets go, and are not made without end") {
  GradientBuffers buffers(4);
  auto first = buffers.acquire(0s).value();
  const auto* const memory = first.get();
  first.reset();
  std::vector<std::shared_ptr<GradientBuffers::Buffer>> held;
  held.push_back(buffers.acquire(0s).value());
  CHECK(held[0].get() == memory);
  while (held.size() < GradientBuffers::kBuffersMax) {
    CHECK(buffers.ready());
    held.push_back(buffers.acquire(0s).value());
  }
  CHECK_FALSE(buffers.ready());
  CHECK(buffers.acquire(1ms).status().code() == StatusCode::kDeadlineExceeded);
  CHECK(buffers.made() == GradientBuffers::kBuffersMax);
}

TEST_CASE("gradient buffers that are read in place may be more, and lie in the memory given") {
  std::array<std::byte, 4096> bytes{};
  const auto memory = std::make_shared<std::pmr::monotonic_buffer_resource>(bytes.data(), bytes.size(),
                                                                            std::pmr::null_memory_resource());
  GradientBuffers buffers(4, 5, ReadBy::kServers, memory);
  std::vector<std::shared_ptr<GradientBuffers::Buffer>> held;
  while (held.size() < 5) {
    CHECK(buffers.ready() == (held.size() < 4));  // the last is for a late transport alone
    held.push_back(buffers.acquire(0s).value());
    const auto* const at = reinterpret_cast<const std::byte*>(held.back()->data());
    CHECK((at >= bytes.data() && at < bytes.data() + bytes.size()));
  }
  CHECK(buffers.acquire(1ms).status().code() == StatusCode::kDeadlineExceeded);
  held.pop_back();
  CHECK(buffers.ready());  // it is there now
}

TEST_CASE("a gradient buffer that servers are late with is waited for before another is made") {
  GradientBuffers buffers(4, 3, ReadBy::kServers, nullptr, 1h);
  auto first = buffers.acquire(0s).value();
  std::thread server([late = std::move(first)]() mutable { late.reset(); });
  CHECK(buffers.acquire(1h).is_ok());
  server.join();
  CHECK(buffers.made() == 1);
}

TEST_CASE("gradient buffers that are sent are as many in whatever memory") {
  GradientBuffers buffers(4, 2, ReadBy::kTransport,
                          std::make_shared<std::pmr::unsynchronized_pool_resource>());
  const auto first = buffers.acquire(0s).value();
  CHECK(buffers.ready());
}

}  // namespace
}  // namespace paceline
