// A client is asked to evaluate: which version it takes, where from, and when that is gone.
#include <catch2/catch.hpp>
#include <future>
#include <vector>

#include "tests/unit/client_fixture.h"
#include "tests/unit/worker_fixture.h"

namespace paceline {
namespace {

using testing::JoinedClient;
using testing::payload_of;
using testing::wire_grant_of;

TEST_CASE("an exact version is fetched past the process cache") {
  JoinedClient f;
  f.left->send(wire::Evaluate{Version(6), true});
  const auto request = f.client->next_evaluation();
  REQUIRE(request.is_ok());
  CHECK(request->final_model);
  std::vector<float> flat(5);
  auto fetched = std::async(std::launch::async, [&] { return f.client->fetch_exact(Version(6), flat); });
  const auto pull = f.left->expect<wire::Pull>();
  REQUIRE(pull);
  CHECK(pull->exact);
  f.left->send(wire::Parameters{pull->request, ShardId(0), Version(6), Revision(6), 0, true, {Clock(6)}},
               payload_of({1, 2, 3}));
  REQUIRE(f.right->expect<wire::Pull>());
  f.right->send(wire::Parameters{pull->request, ShardId(1), Version(6), Revision(6), 0, true, {Clock(6)}},
                payload_of({4, 5}));
  CHECK(fetched.get().is_ok());
  CHECK(flat == std::vector<float>{1, 2, 3, 4, 5});
  CHECK(f.cache.state().version == kNoVersion);
}

TEST_CASE("of the evaluations asked for while none was taken, the newest is wanted") {
  JoinedClient f;
  for (const std::int64_t version : {5, 10, 15, 20, 25, 30})
    f.left->send(wire::Evaluate{Version(version), false});
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  REQUIRE(f.client->next_instruction(0).is_ok());  // so all of them are there
  CHECK(f.client->next_evaluation()->version == Version(30));
}

TEST_CASE("a version that was released before it was fetched is no fault of the node, which goes on") {
  JoinedClient f;
  std::vector<float> flat(5);
  auto fetched = std::async(std::launch::async, [&] { return f.client->fetch_exact(Version(6), flat); });
  REQUIRE(f.left->expect<wire::Pull>());
  REQUIRE(f.right->expect<wire::Pull>());
  for (const auto& server : {f.left.get(), f.right.get()}) {
    server->send(wire::Error{StatusCode::kNotFound, "version 6 is not retained", false});
  }
  const Status late = fetched.get();
  CHECK(late.code() == StatusCode::kNotFound);
  CHECK_THAT(late.message(), Catch::Contains("server shard") && Catch::Contains("version 6 is not retained"));
  CHECK(f.client->closed().is_ok());
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
}

}  // namespace
}  // namespace paceline
