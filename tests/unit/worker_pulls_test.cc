// Pulls in flight: assembling answers frame by frame, sharing one pull among threads, and refusing what does
// not fit.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory_resource>

#include "common/encode/encode.h"
#include "tests/unit/copying_sink.h"
#include "tests/unit/worker_fixture.h"
#include "worker/client/pulls.h"
#include "worker/exchange/mailboxes.h"

namespace paceline {
namespace {

using testing::CopyingSink;
using testing::payload_of;
using testing::slice_of;

const Range kLeft{0, 3};
const Range kRight{3, 4};

struct Fixture {
  ProcessCache cache{{kLeft, kRight}};
  Pulls pulls{cache, 1};
  CopyingSink sink;

  Status piece(Ticket ticket, std::uint32_t shard, std::int64_t version, std::int64_t offset,
               std::vector<float> values, bool last) {
    return pulls.accept(
        ShardId(shard),
        wire::Parameters{ticket, ShardId(shard), Version(version), Revision(version), offset, last,
                         offset == 0 ? std::vector<Clock>{Clock(version)} : std::vector<Clock>{}},
        payload_of(std::move(values)), Ticks(1000 + version));
  }
};

TEST_CASE("an answer is installed with its last frame, and the ticket is answered by the last shard") {
  Fixture f;
  const auto request = f.pulls.request(Version(2), Ticks(0));
  REQUIRE(request.pulls.size() == 2);
  CHECK(request.pulls[0].have == kNoRevision);
  CHECK(f.piece(request.ticket, 0, 2, 0, {1, 2}, false).is_ok());
  CHECK(f.cache.slice(ShardId(0)) == nullptr);
  CHECK(f.piece(request.ticket, 0, 2, 2, {3}, true).is_ok());
  CHECK(f.cache.slice(ShardId(0))->stamp.version == Version(2));
  CHECK_FALSE(f.pulls.answered(request.ticket).has_value());
  CHECK(f.piece(request.ticket, 1, 3, 0, {4}, true).is_ok());
  CHECK(f.pulls.await(request.ticket, f.sink).value() == Ticks(1003));

  std::vector<float> flat(4);
  for (const auto& slice : f.cache.snapshot()) slice->copy_to(flat);
  CHECK(flat == std::vector<float>{1, 2, 3, 4});
}

// Shards [0, 3) and [3, 4), fragments [0, 1) and [1, 4): the second lies on both.
TEST_CASE("a_fragment_is_asked_of_the_shards_that_have_some_of_it_and_has_a_stamp_of_its_own") {
  const std::vector<ShardPart> shards{{kLeft, kLeft, 0}, {kRight, kRight, 0}};
  const std::vector<CacheSlice> slices = cache_slices(shards, {{0, 1}, {1, 4}});
  REQUIRE(own_ranges(slices) == std::vector<Range>{{0, 1}, {1, 3}, {3, 4}});
  CHECK(by_shard(slices, {Revision(5), Revision(3), Revision(4)}) == std::vector{Revision(3), Revision(4)});
  ProcessCache cache(own_ranges(slices));
  Pulls pulls(cache, 2, Encoding::kFp32, nullptr, slices);
  CopyingSink sink;
  const auto answer = [&](Ticket ticket, std::uint32_t shard, std::int64_t version,
                          std::vector<float> values) {
    return pulls.accept(ShardId(shard),
                        wire::Parameters{ticket,
                                         ShardId(shard),
                                         Version(version),
                                         Revision(version),
                                         0,
                                         true,
                                         {Clock(version), Clock(version)}},
                        payload_of(std::move(values)), Ticks(version));
  };
  const auto from_the_end = pulls.request(Version(2), Ticks(0), 0);
  REQUIRE(from_the_end.shards == std::vector{ShardId(0), ShardId(1)});
  CHECK((from_the_end.pulls[0].part == Range{1, 3} && !from_the_end.pulls[1].part));
  CHECK(pulls.request(Version(2), Ticks(0), 0).ticket == from_the_end.ticket);  // another thread's
  const auto first = pulls.request(Version(2), Ticks(0), 1);
  REQUIRE(first.shards == std::vector{ShardId(0)});
  CHECK(first.pulls[0].part == Range{0, 1});
  CHECK(pulls.unanswered(ShardId(1)).empty());  // nothing has left yet
  pulls.asked(first.ticket);
  CHECK((pulls.unanswered(ShardId(1)).empty() && pulls.unanswered(ShardId(0)).size() == 1));

  CHECK(answer(first.ticket, 0, 3, {1}).is_ok());
  CHECK(pulls.answered(first.ticket).has_value());
  CHECK(answer(from_the_end.ticket, 0, 2, {2, 3}).is_ok());
  CHECK(cache.state().version == kNoVersion);
  CHECK(answer(from_the_end.ticket, 1, 2, {4}).is_ok());
  CHECK(cache.state().version == Version(2));
  CHECK(cache.slice(ShardId(0))->stamp.version == Version(3));
  std::vector<float> flat(4);
  for (const auto& slice : cache.snapshot()) slice->copy_to(flat);
  CHECK(flat == std::vector<float>{1, 2, 3, 4});

  // What would do is here, and yet asked for: there may be something newer.
  const auto again = pulls.request(Version(3), Ticks(7), 1);
  REQUIRE(again.pulls.size() == 1);
  CHECK(again.pulls[0].have == Revision(3));
  const auto newer = pulls.request(Version(3), Ticks(0), 0);
  REQUIRE(newer.pulls.size() == 2);
  CHECK(newer.pulls[0].have == Revision(2));
  const auto whole = pulls.request_exact(Version(2), Ticks(0));
  CHECK((whole.pulls.size() == 2 && !whole.pulls[0].part && answer(whole.ticket, 0, 2, {1, 2, 3}).is_ok()));
}

// Of one shard: an exact answer is of all of it, and what lies in a device's memory of one slice.
TEST_CASE("a_slice_takes_memory_of_its_size_and_an_exact_answer_that_is_lent_none_of_a_device") {
  const std::vector<CacheSlice> slices = cache_slices({{{0, 320}, {0, 320}, 0}}, {{0, 20}, {20, 320}});
  ProcessCache cache(own_ranges(slices));
  std::array<std::byte, 2048> all{};
  Pulls pulls(cache, 1, Encoding::kFp32,
              std::make_shared<std::pmr::monotonic_buffer_resource>(all.data(), all.size(),
                                                                    std::pmr::null_memory_resource()),
              slices);
  const auto answer = [&](Ticket ticket, std::size_t floats) {
    wire::Payload lent = payload_of(std::vector<float>(floats, 1.0F));
    lent.borrowed = true;
    return pulls.accept(ShardId(0),
                        wire::Parameters{ticket, ShardId(0), Version(2), Revision(2), 0, true, {Clock(2)}},
                        std::move(lent), Ticks(1));
  };
  CHECK(answer(pulls.request(Version(2), Ticks(0), 0).ticket, 300).is_ok());
  CHECK(answer(pulls.request(Version(2), Ticks(0), 1).ticket, 20).is_ok());
  const auto exact = pulls.request_exact(Version(2), Ticks(0));
  CHECK(answer(exact.ticket, 320).is_ok());
  const Snapshot whole = pulls.collect(exact.ticket).value();
  std::vector<float> flat(320);
  for (const auto& slice : whole) slice->copy_to(flat);
  CHECK(flat == std::vector<float>(320, 1.0F));
}

TEST_CASE("who no longer needs parameters stops waiting for them, once woken") {
  Fixture f;
  const auto request = f.pulls.request(Version(2), Ticks(0));
  CHECK(f.piece(request.ticket, 0, 2, 0, {1, 2}, false).is_ok());
  std::atomic<bool> unneeded = false;
  std::promise<void> copied;  // fulfilled once the piece has been copied in: the next thing to do is to wait
  struct Reporting : CopyingSink {
    std::promise<void>* copied = nullptr;
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override {
      CopyingSink::copy_in(shard, stamp, piece);
      copied->set_value();
      return true;
    }
  } sink;
  sink.copied = &copied;
  auto waiting = std::async(std::launch::async, [&] {
    return f.pulls.await_unless([&] { return unneeded.load(); }, request.ticket, sink);
  });
  copied.get_future().wait();
  unneeded = true;
  f.pulls.wake();
  const auto answered = waiting.get();
  REQUIRE(answered.is_ok());
  CHECK_FALSE(answered->has_value());
  // The answer is welcome all the same, and who needs it waits for it.
  CHECK(f.piece(request.ticket, 0, 2, 2, {3}, true).is_ok());
  CHECK(f.piece(request.ticket, 1, 2, 0, {4}, true).is_ok());
  CHECK(f.pulls.await_unless([] { return true; }, request.ticket, f.sink).value() == Ticks(1002));
}

TEST_CASE("who waits for parameters gets them piece by piece, before the answer is whole") {
  Fixture f;
  const auto request = f.pulls.request(Version(2), Ticks(0));
  CHECK(f.piece(request.ticket, 0, 2, 0, {1, 2}, false).is_ok());
  struct Finisher : CopyingSink {  // the rest arrives once the first piece has been copied in
    Fixture& f;
    Ticket ticket;
    Finisher(Fixture& fixture, Ticket t) : f(fixture), ticket(t) {}
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override {
      CopyingSink::copy_in(shard, stamp, piece);
      if (values.size() != 2) return true;
      CHECK(stamp.applied == std::vector{Clock(2)});
      CHECK(f.piece(ticket, 0, 2, 2, {3}, true).is_ok());
      CHECK(f.piece(ticket, 1, 2, 0, {4}, true).is_ok());
      return true;
    }
  };
  Finisher finisher(f, request.ticket);
  CHECK(f.pulls.await(request.ticket, finisher).is_ok());
  CHECK(finisher.values == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("threads that need the same share one pull; one that needs more sends its own") {
  Fixture f;
  const auto first = f.pulls.request(Version(2), Ticks(0));
  const auto same = f.pulls.request(Version(2), Ticks(0));
  CHECK(same.pulls.empty());
  CHECK(same.ticket == first.ticket);
  CHECK(f.pulls.request(Version(3), Ticks(0)).pulls.size() == 2);
}

TEST_CASE(
    "a pull that is held for a version yet to come is not shared with a thread that it may be waiting for") {
  Fixture f;
  f.pulls.request(Version(7), Ticks(0));
  f.cache.note_existence(Version(6), Revision(6));
  CHECK(f.pulls.request(Version(4), Ticks(0)).pulls.size() == 2);
  f.cache.note_existence(Version(7), Revision(7));
  CHECK(f.pulls.request(Version(5), Ticks(0)).pulls.empty());
}

TEST_CASE("a late answer with an older slice leaves the newer one in place") {
  Fixture f;
  const auto late = f.pulls.request(Version(1), Ticks(0));
  const auto early = f.pulls.request(Version(5), Ticks(0));
  CHECK(f.piece(early.ticket, 0, 5, 0, {5, 5, 5}, true).is_ok());
  CHECK(f.piece(late.ticket, 0, 1, 0, {1, 1, 1}, true).is_ok());
  CHECK(f.cache.slice(ShardId(0))->stamp.version == Version(5));
}

TEST_CASE("the next pull says which revision is here, and 'unchanged' answers it") {
  Fixture f;
  f.cache.install(ShardId(0), slice_of(kLeft, 4, {Clock(4)}, {1, 1, 1}));
  f.cache.install(ShardId(1), slice_of(kRight, 4, {Clock(4)}, {1}));
  const auto request = f.pulls.request(Version(4), Ticks(0));
  CHECK(request.pulls[0].have == Revision(4));
  for (std::uint32_t k : {0U, 1U}) {
    CHECK(f.pulls
              .accept(ShardId(k),
                      wire::Unchanged{request.ticket, ShardId(k), Version(5), Revision(4), {Clock(5)}},
                      Ticks(9))
              .is_ok());
  }
  CHECK(f.pulls.await(request.ticket, f.sink).value() == Ticks(9));
  CHECK(f.cache.state().version == Version(5));
}

TEST_CASE("an exact pull brings its version to the caller alone") {
  Fixture f;
  const auto request = f.pulls.request_exact(Version(3), Ticks(0));
  CHECK(request.pulls[0].exact);
  CHECK(f.piece(request.ticket, 0, 3, 0, {1, 2, 3}, true).is_ok());
  CHECK(f.piece(request.ticket, 1, 3, 0, {4}, true).is_ok());
  const Snapshot snapshot = f.pulls.collect(request.ticket).value();
  CHECK(snapshot[1]->pieces[0].payload.floats()[0] == 4.0F);
  CHECK(f.cache.state().version == kNoVersion);
}

TEST_CASE(
    "an exact pull that a shard refuses ends when all have said something, and leaves the next one alone") {
  Fixture f;
  CHECK_FALSE(f.pulls.refuse_exact(ShardId(0), not_found("released")));
  f.pulls.request(Version(2), Ticks(0));
  const auto late = f.pulls.request_exact(Version(3), Ticks(0));
  auto collecting =
      std::async(std::launch::async, [&] { return f.pulls.collect(late.ticket).status().message(); });
  CHECK(f.piece(late.ticket, 0, 3, 0, {1, 2}, false).is_ok());
  CHECK(f.pulls.refuse_exact(ShardId(1), not_found("released")));
  CHECK_FALSE(f.pulls.refuse_exact(ShardId(1), not_found("released")));
  CHECK(f.piece(late.ticket, 0, 3, 2, {3}, true).is_ok());
  CHECK(collecting.get() == "released");

  const auto next = f.pulls.request_exact(Version(4), Ticks(0));
  CHECK(f.piece(next.ticket, 0, 4, 0, {1, 2, 3}, true).is_ok());
  CHECK(f.piece(next.ticket, 1, 4, 0, {4}, true).is_ok());
  CHECK(f.pulls.collect(next.ticket).is_ok());
}

TEST_CASE("what does not continue its answer is refused, with what was expected") {
  Fixture f;
  const Ticket ticket = f.pulls.request(Version(2), Ticks(0)).ticket;
  const auto refused = [&](const Status& status, const std::string& why) {
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK_THAT(status.message(), Catch::Contains(why));
  };
  refused(f.piece(ticket + 9, 0, 2, 0, {1, 2, 3}, true), "no such request");
  refused(f.piece(ticket, 0, 1, 0, {1, 2, 3}, true), "version 1, expected at least 2");
  refused(f.piece(ticket, 0, 2, 1, {1, 2}, false), "at 1, expected at 0 of 3");
  refused(f.piece(ticket, 0, 2, 0, {1, 2, 3, 4}, true), "4 floats at 0");
  refused(f.piece(ticket, 0, 2, 0, {1, 2}, true), "end with 2 floats");
  refused(f.piece(ticket, 0, 3, 2, {3}, true), "revision 3 after pieces of revision 2");
  refused(
      f.pulls.accept(ShardId(1), wire::Parameters{ticket, ShardId(0), Version(2), Revision(2), 0, true, {}},
                     {}, Ticks()),
      "name shard 0");
  refused(f.pulls.accept(ShardId(1), wire::Unchanged{ticket, ShardId(1), Version(2), Revision(2), {Clock(2)}},
                         Ticks()),
          "nothing is here");
  // What has been copied in cannot turn out to be unchanged.
  f.cache.install(ShardId(1), slice_of(kRight, 2, {Clock(2)}, {4}));
  CHECK(f.piece(ticket, 1, 3, 0, {}, false).is_ok());
  refused(f.pulls.accept(ShardId(1), wire::Unchanged{ticket, ShardId(1), Version(2), Revision(2), {Clock(2)}},
                         Ticks()),
          "'unchanged' after 1 pieces");
}

TEST_CASE("closing releases who waits, for parameters and for grants") {
  Fixture f;
  Mailboxes mailboxes(1);
  const Ticket ticket = f.pulls.request(Version(2), Ticks(0)).ticket;
  const Ticket exact = f.pulls.request_exact(Version(2), Ticks(0)).ticket;
  auto waiting =
      std::async(std::launch::async, [&] { return f.pulls.await(ticket, f.sink).status().message(); });
  auto collecting = std::async(std::launch::async, [&] { return f.pulls.collect(exact).status().message(); });
  auto idle = std::async(std::launch::async, [&] { return mailboxes.take(0).status().message(); });
  f.pulls.close(aborted("stopped"));
  mailboxes.close(aborted("stopped"));
  CHECK(waiting.get() == "stopped");
  CHECK(collecting.get() == "stopped");
  CHECK(idle.get() == "stopped");
}

TEST_CASE("a mailbox holds the grant and the news after it, and no more") {
  Mailboxes mailboxes(2);
  CHECK(mailboxes.put(1, Granted{testing::grant_of(4, Threshold(1), 3), {}}).is_ok());
  CHECK(mailboxes.put(1, Finished{"share done", {}, {}}).is_ok());
  CHECK(mailboxes.put(1, Finished{"share done", {}, {}}).code() == StatusCode::kResourceExhausted);
  CHECK(mailboxes.put(2, Finished{}).code() == StatusCode::kInvalidArgument);
  CHECK(std::get<Granted>(mailboxes.take(1).value()).grant.clock == Clock(4));
  CHECK(std::get<Finished>(mailboxes.take(1).value()).reason == "share done");
}

TEST_CASE("answers in half the bytes are decoded once, on their way into the process cache") {
  Fixture f;
  Pulls pulls{f.cache, 1, Encoding::kBf16};
  const auto answer = [&](Ticket ticket, std::uint32_t shard, std::int64_t version, std::int64_t offset,
                          const std::vector<float>& values, bool last, Encoding encoding = Encoding::kBf16) {
    const Encoder encoder{encoding};
    const auto owner = std::make_shared<std::vector<float>>(values.size() + 1);
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(owner->data()),
                                     encoder.bytes_of(std::ssize(values)));
    encoder.encode(values, bytes);
    wire::Payload payload{owner, bytes.data(), bytes.size()};
    payload.encoding = encoding;
    if (encoding != Encoding::kFp32) payload.encoded_floats = std::ssize(values);
    return pulls.accept(
        ShardId(shard),
        wire::Parameters{ticket, ShardId(shard), Version(version), Revision(version), offset, last,
                         offset == 0 ? std::vector<Clock>{Clock(version)} : std::vector<Clock>{}},
        payload, Ticks(1));
  };
  for (std::int64_t version = 1; version <= 4; ++version) {  // the buffers are used again
    const auto v = static_cast<float>(version);
    const Ticket ticket = pulls.request(Version(version), Ticks(0)).ticket;
    const Snapshot before = f.cache.snapshot();
    CHECK(answer(ticket, 0, version, 0, {v, 1}, false).is_ok());
    CHECK(answer(ticket, 0, version, 2, {3}, true).is_ok());
    CHECK(answer(ticket, 1, version, 0, {4 * v}, true).is_ok());
    f.sink.values.clear();
    CHECK(pulls.await(ticket, f.sink).is_ok());
    std::vector<float> flat(4);
    for (const auto& slice : f.cache.snapshot()) slice->copy_to(flat);
    CHECK(flat == std::vector<float>{v, 1, 3, 4 * v});
    if (version == 1) continue;
    for (const auto& slice : before) slice->copy_to(flat);  // who still has the older one reads that
    CHECK(flat == std::vector<float>{v - 1, 1, 3, 4 * (v - 1)});
  }
  const Ticket ticket = pulls.request(Version(9), Ticks(0)).ticket;
  CHECK_THAT(answer(ticket, 0, 9, 0, {1, 2, 3}, true, Encoding::kFp32).message(),
             Catch::Contains("in encoding 0, expected 2"));
  const Ticket exact = pulls.request_exact(Version(9), Ticks(0)).ticket;
  CHECK_THAT(answer(exact, 0, 9, 0, {1, 2, 3}, true).message(), Catch::Contains("in encoding 2, expected 0"));
  CHECK(answer(exact, 0, 9, 0, {1, 2, 3}, true, Encoding::kFp32).is_ok());
}

}  // namespace
}  // namespace paceline
