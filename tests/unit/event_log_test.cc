// What one replica of a shard tells the other, and what it says itself only after that; and what a follower
// says where the one before it cannot any more.
#include "server/replicas/event_log.h"

#include <catch2/catch.hpp>
#include <memory>

#include "common/wire/unread.h"
#include "server/replicas/replicated_background.h"
#include "server/replicas/uncommitted_outputs.h"

namespace paceline::server {
namespace {

using Catch::Contains;

wire::Message event(std::int64_t version = 0) {
  return {wire::Release{Version(version)}, {}, wire::LogEntry{wire::LogEntry::As::kToShard}};
}
wire::Message grant(std::int64_t clock) { return {wire::Grant{.clock = Clock(clock)}, {}}; }
EventLog::To to(const char* connection) { return wire::PeerId(connection); }
std::vector<std::int64_t> clocks(const std::vector<EventLog::Output>& outputs) {
  std::vector<std::int64_t> found;
  for (const EventLog::Output& output : outputs)
    found.push_back(std::get<wire::Grant>(output.message.body).clock.value);
  return found;
}
using Clocks = std::vector<std::int64_t>;

TEST_CASE("what is said waits for the events that it follows from, and for no later ones") {
  EventLog log;
  log.follow();
  log.add(event());
  log.hold(to("node"), grant(1));
  log.add(event());
  log.hold(to("node"), grant(2));
  CHECK(log.take(false).empty());
  REQUIRE(log.held(1).is_ok());
  CHECK(clocks(log.take(false)) == Clocks{1});
  REQUIRE(log.held(2).is_ok());
  CHECK(clocks(log.take(false)) == Clocks{2});
  CHECK(!log.holds());
}

TEST_CASE("where nobody else must have it nothing waits") {
  EventLog log;
  log.add(event());
  log.hold(to("node"), grant(1));
  log.hold(EventLog::To::authority(), grant(2));
  const auto outputs = log.take(true);
  CHECK(clocks(outputs) == Clocks{1, 2});
  CHECK(outputs[0].to == to("node"));
  CHECK(outputs[1].to == EventLog::To::authority());
}

TEST_CASE("a follower is told all from the start, numbered, each turn's last event marked") {
  EventLog log;
  log.add(event(10));
  log.add(event(11));
  CHECK(log.end_turn().empty());  // kept: nobody follows yet
  log.add(event(12));
  std::vector<wire::Message> received = log.follow();
  CHECK(received.size() == 2);  // the turn that is under way has not ended
  log.add(event(13));
  for (wire::Message& more : log.end_turn()) received.push_back(std::move(more));
  REQUIRE(received.size() == 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(received[static_cast<std::size_t>(i)].logged->number == i);
    CHECK(received[static_cast<std::size_t>(i)].logged->ends_turn == (i % 2 == 1));
    CHECK(std::get<wire::Release>(received[static_cast<std::size_t>(i)].body).version == Version(10 + i));
  }
  CHECK(log.end_turn().empty());
}

TEST_CASE("a follower that goes before it has all makes room for another, which is told all") {
  EventLog log;
  log.add(event(10));
  log.end_turn();
  CHECK(log.follow().size() == 1);
  REQUIRE(log.held(1).is_ok());
  log.add(event(11));
  CHECK(log.end_turn().size() == 1);
  log.unfollow();
  REQUIRE(log.may_be_followed());
  CHECK(log.held() == 0);
  log.add(event(12));
  CHECK(log.end_turn().empty());
  const auto received = log.follow();
  REQUIRE(received.size() == 3);
  CHECK(received.back().logged->number == 2);
}

TEST_CASE("once a follower has all, and has gone, nothing is kept, and events are counted on") {
  EventLog log;
  log.follow();
  log.discard_history();
  log.add(event());
  log.unfollow();
  CHECK(!log.may_be_followed());
  log.add(event());
  CHECK(log.end_turn().empty());
  CHECK(log.count() == 2);
}

TEST_CASE("what was held for a connection that broke is dropped, and nothing else") {
  EventLog log;
  log.hold(to("a"), grant(1));
  log.hold(to("b"), grant(2));
  log.hold(EventLog::To::authority(), grant(3));
  log.hold(to("a"), grant(4));
  log.drop(to("a"));
  CHECK(clocks(log.take(true)) == Clocks{2, 3});
}

TEST_CASE("what is held is counted for each connection, but what is large, until it may go or is dropped") {
  EventLog log;
  log.follow();
  log.add(event());
  for (int i = 0; i < 3; ++i) log.hold(to("a"), grant(i));
  log.hold(to("b"), grant(3));
  log.hold(EventLog::To::authority(), grant(4));
  const auto bytes = std::make_shared<const std::vector<std::byte>>(wire::kCopiedBytesMax + 1);
  for (const std::size_t fewer : {0, 1}) {
    log.hold(to("a"), {wire::Parameters{}, {bytes, bytes->data(), bytes->size() - fewer}});
  }
  CHECK((log.waiting("a") == 4 && log.waiting("b") == 1 && log.waiting("c") == 0));
  log.drop(to("b"));
  CHECK((log.waiting("a") == 4 && log.waiting("b") == 0));
  log.add(event());
  log.hold(to("a"), grant(5));
  REQUIRE(log.held(1).is_ok());
  CHECK(log.take(false).size() == 6);
  CHECK(log.waiting("a") == 1);
  log.take(true);
  CHECK(log.waiting("a") == 0);
}

TEST_CASE("a follower has no more than there is, nor forgets what it had") {
  EventLog log;
  log.follow();
  log.add(event());
  log.add(event());
  REQUIRE(log.held(1).is_ok());
  CHECK_THAT(log.held(3).message(), Contains("got 3, expected 1 to 2"));
  CHECK_THAT(log.held(0).message(), Contains("got 0, expected 1 to 2"));
  CHECK(log.held() == 1);
}

wire::Message arrived(std::uint32_t thread, std::int64_t clock) {
  return {wire::GradientArrived{ShardId(0), WorkerId(NodeId(0), thread), Clock(clock), 8, {}}, {}};
}

TEST_CASE(
    "what the one that serves has said the follower does not say again, in whatever order they come to it") {
  UncommittedOutputs uncommitted;
  uncommitted.add(arrived(0, 5));
  uncommitted.add(arrived(1, 5));
  uncommitted.on_primary_sent(arrived(1, 5));
  uncommitted.on_primary_sent(arrived(2, 5));  // it waited for nothing there, and here it does
  uncommitted.add(arrived(2, 5));
  uncommitted.add({wire::ShardReady{}, {}});
  uncommitted.add({wire::NodeLost{}, {}});  // time's, not an event's
  uncommitted.add({wire::Saved{.version = Version(7)}, {}});
  uncommitted.on_primary_sent({wire::Saved{.version = Version(7)}, {}});
  uncommitted.add({wire::Parameters{.request = 1, .offset = 4}, {}});
  uncommitted.on_primary_sent({wire::Parameters{.request = 1, .offset = 4}, {}});
  uncommitted.on_primary_sent({wire::ShardReport{.pulls = 5}, {}});
  uncommitted.add({wire::ShardReport{}, {}});
  uncommitted.add({wire::GradientArrived{ShardId(0), WorkerId(NodeId(1), 0), Clock(5), 8, {}}, {}});
  uncommitted.forget(NodeId(1));  // lost
  const auto left = uncommitted.take();
  REQUIRE(left.size() == 2);
  CHECK(std::get<wire::GradientArrived>(left[0].body).worker == WorkerId(NodeId(0), 0));
  CHECK(std::holds_alternative<wire::ShardReady>(left[1].body));
  CHECK(uncommitted.size() == 0);
}

TEST_CASE("what both have saved of a version is compared once both have said so, whoever is the first") {
  UncommittedOutputs uncommitted;
  const auto saved = [](std::int64_t version, const std::string& fault) {
    return wire::Message{wire::Saved{ShardId(0), Version(version), {}, fault}, {}};
  };
  CHECK_FALSE(uncommitted.add(saved(7, "no space left")));
  CHECK_FALSE(uncommitted.on_primary_sent(saved(8, "")));
  CHECK_FALSE(uncommitted.add(arrived(0, 5)));
  CHECK_FALSE(uncommitted.on_primary_sent(arrived(0, 5)));
  auto both = uncommitted.on_primary_sent(saved(7, ""));
  REQUIRE(both.has_value());
  CHECK((both->here.fault == "no space left" && both->there.fault.empty()));
  CHECK_FALSE(uncommitted.add_late(saved(9, "")));  // nobody has said it before
  both = uncommitted.add_late(saved(8, "full"));
  REQUIRE(both.has_value());
  CHECK((both->here.fault == "full" && both->there.fault.empty()));
  CHECK(uncommitted.size() == 0);
}

TEST_CASE("files of one version that are not the same are of two states; what was not written is of none") {
  UncommittedOutputs uncommitted;
  const auto saved = [](std::int64_t version, FileDigest digest, const std::string& fault = "") {
    return wire::Message{wire::Saved{ShardId(1), Version(version), digest, fault}, {}};
  };
  uncommitted.add(saved(7, {5, 0xa}));
  CHECK(uncommitted.on_primary_sent(saved(7, {5, 0xa}))->compare().is_ok());
  uncommitted.on_primary_sent(saved(8, {5, 0xa}));
  const Status differs = uncommitted.add(saved(8, {5, 0xb}))->compare();
  CHECK(differs.code() == StatusCode::kDataLoss);
  CHECK_THAT(differs.message(), Contains("version 8 of shard 1") && Contains(hex(std::uint64_t{0xb})));
  uncommitted.add(saved(9, {}, "full"));
  CHECK(uncommitted.on_primary_sent(saved(9, {5, 0xa}))->compare().is_ok());
  uncommitted.add(saved(10, {5, 0xa}));
  CHECK(uncommitted.on_primary_sent(saved(10, {}, "full"))->compare().is_ok());
}

// Work is done when the test says so.
struct Disk final : Background {
  using Background::run;
  void run(Work work, Done done, Here) override { works.emplace_back(std::move(work), std::move(done)); }
  void finish(std::size_t i) { works[i].second(works[i].first(), Ticks(1)); }
  std::vector<std::pair<Work, Done>> works;
};

struct Works {
  Disk disk;
  std::vector<std::int64_t> noted;
  std::vector<std::string> done;
  std::vector<std::string> here;
  std::vector<std::string> warnings;
  Log log = Log::to([this](LogLevel level, const std::string& text) {
    if (level == LogLevel::kWarn) warnings.push_back(text);
  });
  ReplicatedBackground background{
      disk, [] { return Ticks(7); },
      [this](std::int64_t number, const Status&, Ticks) { noted.push_back(number); }, log};
  void begin(const std::string& name, const Status& result = Status::ok()) {
    background.run([result] { return result; }, [this, name](const Status&, Ticks) { done.push_back(name); },
                   [this, name](const Status& own, const Status& counts) {
                     const auto reported = [](const Status& s) { return s.is_ok() ? "ok" : s.message(); };
                     here.push_back(name + ": here " + reported(own) + ", counts " + reported(counts));
                   });
  }
};
using Names = std::vector<std::string>;

TEST_CASE("work that is done is told before it counts") {
  Works works;
  works.begin("a");
  works.begin("b");
  works.disk.finish(1);
  CHECK(works.noted == std::vector<std::int64_t>{1});
  CHECK(works.done == Names{"b"});
}

TEST_CASE("a follower's work counts when the one that serves has said so, be its own done or not") {
  Works works;
  works.background.follow();
  works.begin("a");
  works.begin("b");
  works.disk.finish(0);
  CHECK(works.done.empty());
  CHECK(works.background.done(1, Status::ok(), Ticks(3)).is_ok());
  CHECK(works.done == Names{"b"});
  works.disk.finish(1);  // late, and counted already
  CHECK(works.background.done(0, Status::ok(), Ticks(4)).is_ok());
  CHECK(works.done == Names{"b", "a"});
  CHECK(works.noted.empty());
}

TEST_CASE("what a work has left here is looked at once it is done here and counts, and never before") {
  Works works;
  works.background.follow();
  works.begin("a");
  works.begin("b", unavailable("full"));
  works.disk.finish(0);
  CHECK(works.here.empty());
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).is_ok());
  CHECK(works.here == Names{"a: here ok, counts ok"});
  CHECK(works.background.done(1, Status::ok(), Ticks(4)).is_ok());
  CHECK(works.done == Names{"a", "b"});
  CHECK(works.here.size() == 1);
  works.disk.finish(1);
  CHECK(works.here.back() == "b: here full, counts ok");
}

TEST_CASE("work that this one has not begun, or that is done already, is of another state") {
  Works works;
  works.background.follow();
  works.begin("a");
  const Status unknown = works.background.done(1, Status::ok(), Ticks(3));
  CHECK(unknown.code() == StatusCode::kDataLoss);
  CHECK_THAT(unknown.message(), Contains("background work 1"));
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).is_ok());
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).code() == StatusCode::kDataLoss);
  works.disk.finish(0);
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).code() == StatusCode::kDataLoss);
  CHECK(works.done == Names{"a"});
}

TEST_CASE("work that comes to something else here than there is said, ever more seldom") {
  Works works;
  works.background.follow();
  for (int i = 0; i < 4; ++i) works.begin("a", unavailable("shard-0: no space left"));
  works.disk.finish(0);
  CHECK(works.warnings.empty());  // nobody knows yet
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).is_ok());
  REQUIRE(works.warnings.size() == 1);
  CHECK_THAT(works.warnings[0], Contains("not on this replica's disk") && Contains("shard-0: no space left"));
  for (int i = 1; i < 4; ++i) CHECK(works.background.done(i, Status::ok(), Ticks(4)).is_ok());
  CHECK(works.warnings.size() == 1);
  for (std::size_t i = 1; i < 4; ++i) works.disk.finish(i);
  CHECK(works.warnings.size() == 3);  // the first, the second, the fourth
  works.begin("b");
  works.disk.finish(4);
  CHECK(works.background.done(4, Status::ok(), Ticks(5)).is_ok());
  CHECK(works.warnings.size() == 3);
}

TEST_CASE("who is to end waits for what counts and is not done here yet, and for nothing else") {
  Works works;
  works.background.follow();
  works.begin("a");
  works.begin("b");
  CHECK(works.background.done(0, Status::ok(), Ticks(3)).is_ok());
  CHECK(works.background.is_behind());
  bool received = false;
  works.background.when_caught_up([&] { received = true; });
  CHECK_FALSE(received);
  works.disk.finish(0);
  CHECK(received);
  CHECK_FALSE(works.background.is_behind());
}

TEST_CASE("one that takes over goes on with its own work: what is done counts at once, the rest when it is") {
  Works works;
  works.background.follow();
  works.begin("a");
  works.begin("b");
  works.disk.finish(0);
  works.background.take_over();
  CHECK(works.done == Names{"a"});
  works.disk.finish(1);
  CHECK(works.done == Names{"a", "b"});
}

}  // namespace
}  // namespace paceline::server
