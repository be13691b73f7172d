// Where a client stands: which of several things said first counts, and who is woken.
#include "worker/client/client_state.h"

#include <catch2/catch.hpp>
#include <future>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the_first_reason_to_close_a_client_counts") {
  ClientState state(1);
  CHECK(state.closed().is_ok());
  CHECK(state.close(unavailable("the server is silent")));
  CHECK_FALSE(state.close(aborted("the run is over")));
  CHECK(state.closed().message() == "the server is silent");
}

TEST_CASE("a_client_that_was_closed_says_what_it_lost_with_that") {
  ClientState state(1);
  CHECK(state.lost() == Lost::kNothing);
  CHECK(state.close(unavailable("the server is silent"), Lost::kTheAuthority));
  CHECK_FALSE(state.close(unavailable("another one, too"), Lost::kShard));
  CHECK(state.lost() == Lost::kTheAuthority);
}

TEST_CASE("who_waits_for_welcomes_is_told_who_is_missing_or_why_the_client_was_closed") {
  using Standing = ClientState::Standing;
  using Standings = std::vector<Standing>;
  ClientState state(2);
  state.stands(ShardId(1), {1, ""});
  const auto some = state.await_welcomes(0ns);
  REQUIRE(some.is_ok());
  CHECK(*some == Standings{{0, ""}, {1, ""}});
  state.stands(ShardId(0), {2, ""});  // another generation
  CHECK(*state.await_welcomes(0ns) == Standings{{2, ""}, {1, ""}});
  state.stands(ShardId(1), {0, "it is old"});
  CHECK(*state.await_welcomes(0ns) == Standings{{2, ""}, {0, "it is old"}});
  auto all = std::async(std::launch::async, [&] { return state.await_welcomes(1h); });
  state.stands(ShardId(1), {2, ""});
  CHECK(*all.get() == Standings{{2, ""}, {2, ""}});
  state.close(unavailable("gone"));
  state.stands(ShardId(0), {2, ""});
  CHECK(state.await_welcomes(0ns).status().message() == "gone");
}

TEST_CASE("the_end_is_what_the_authority_said_first_or_why_the_client_was_closed_without_that") {
  ClientState received(1);
  CHECK_FALSE(received.run_over());
  auto end = std::async(std::launch::async, [&] { return received.await_end(); });
  received.over(Status::ok());
  received.over(aborted("said later"));
  received.close(unavailable("the server has gone"));
  CHECK(end.get().is_ok());
  ClientState untold(1);
  untold.close(unavailable("the server has gone"));
  CHECK(untold.await_end().message() == "the server has gone");
}

}  // namespace
}  // namespace paceline
