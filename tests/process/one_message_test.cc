// One round trip a step, in messages on the wire: what a node says of a step in one turn is one message, and
// so is what a real server answers it. (round_trip_test.cc counts what is said, however it travels.)
#include <catch2/catch.hpp>
#include <vector>

#include "tests/process/scripted_node.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

constexpr std::int64_t kFloats = 5;  // in one frame
constexpr std::int64_t kSteps = 3;

RunConfig config_in(const testing::TempFolder& folder, PolicyKind policy) {
  RunConfig config;
  config.run.out = folder.path();
  config.cluster.endpoints = {"ipc://" + (folder / "s0").string()};
  config.train.total_iterations = kSteps;
  config.train.optimizer.lr = 1.0;
  config.sync.policy = policy;
  config.sync.apply = policy == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
  config.sync.combine = CombineMode::kEach;
  return config;
}

void send_step(ScriptedNode& node, std::int64_t clock) {
  node.send(0, wire::Push{WorkerId(0, 0), Clock(clock), 0, true, 4, Version(clock), Revision(clock)},
            std::vector<float>(kFloats, 1.0F));
  node.send(0, report_at(clock));
}

}  // namespace

TEST_CASE("a_step_is_one_message_and_its_answer_is_one") {
  const PolicyKind policy = GENERATE(PolicyKind::kAsp, PolicyKind::kBsp);
  const bool ahead = policy == PolicyKind::kAsp;  // parameters are asked for ahead of the push, or after it
  CAPTURE(ahead);
  const testing::TempFolder folder;
  const RunConfig config = config_in(folder, policy);
  wire::Context context;
  RunningServer server(config, kAuthority, context);
  REQUIRE(server.started().is_ok());
  ScriptedNode node(context, config.cluster.endpoints, nullptr, 0, ScriptedNode::Framing::kSentTogether);
  node.send(0, join_of(config, 0, kFloats));
  node.receive<wire::Welcome>(0);
  node.send(0, wire::InitialParameters{0, true}, std::vector<float>(kFloats));
  node.receive<wire::Grant>(0);

  for (std::int64_t clock = 0; clock + 1 < kSteps; ++clock) {
    const std::int64_t sent = node.messages_sent(0);
    const std::int64_t received = node.messages_received(0);
    const auto request = static_cast<std::uint64_t>(clock + 1);
    if (ahead) node.send(0, wire::Pull{request, Version(0), false, kNoRevision});
    send_step(node, clock);
    if (!ahead) node.send(0, wire::Pull{request, Version(clock + 1), false, kNoRevision});
    if (ahead) CHECK(node.receive<wire::Parameters>(0).request == request);
    CHECK(node.receive<wire::Grant>(0).clock == Clock(clock + 1));
    if (!ahead) CHECK(node.receive<wire::Parameters>(0).version == Version(clock + 1));
    CHECK(node.messages_sent(0) - sent == 1);
    CHECK(node.messages_received(0) - received == 1);
  }
}

}  // namespace paceline::server
