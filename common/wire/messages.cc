// The messages' names, in the order of the variant.
#include "common/wire/messages.h"

#include <array>

namespace paceline::wire {
namespace {

constexpr std::array<const char*, kBodies> kNames = {"Join",
                                                     "Welcome",
                                                     "InitialParameters",
                                                     "Push",
                                                     "StepReport",
                                                     "Pull",
                                                     "Parameters",
                                                     "Unchanged",
                                                     "Grant",
                                                     "Held",
                                                     "FinishWorker",
                                                     "Evaluate",
                                                     "EvaluationReport",
                                                     "NodeReport",
                                                     "Leave",
                                                     "RunOver",
                                                     "Heartbeat",
                                                     "Error",
                                                     "ShardJoin",
                                                     "ShardWelcome",
                                                     "ShardReady",
                                                     "GradientArrived",
                                                     "ApplyDecision",
                                                     "DiscardGradient",
                                                     "NodeLost",
                                                     "Release",
                                                     "ShardReport",
                                                     "Withdraw",
                                                     "Saved",
                                                     "ForgetSaved",
                                                     "StopRun",
                                                     "NodeReady",
                                                     "NodeAdmitted",
                                                     "ReplicaJoin",
                                                     "ReplicaWelcome",
                                                     "LogAck",
                                                     "LocalEvent",
                                                     "HandOver",
                                                     "ReplicaResumes",
                                                     "FilePull",
                                                     "FilePiece",
                                                     "Peers",
                                                     "StateWanted",
                                                     "NodeState"};

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<AnyBody> && std::is_nothrow_move_assignable_v<AnyBody>);

Body::Body() = default;
Body::Body(const Body&) = default;
Body::Body(Body&&) noexcept = default;
Body& Body::operator=(const Body&) = default;
Body& Body::operator=(Body&&) noexcept = default;
Body::~Body() = default;

const char* name_of(const Body& body) { return kNames[body.index()]; }

}  // namespace paceline::wire
