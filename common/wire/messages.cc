// The messages' names, in the order of the variant.
#include "common/wire/messages.h"

#include <array>

namespace paceline::wire {
namespace {

constexpr std::array<const char*, std::variant_size_v<Body>> kNames = {"Join",
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
                                                                       "LogHeld",
                                                                       "Happened",
                                                                       "HandOver",
                                                                       "ReplicaResumes",
                                                                       "FilePull",
                                                                       "FilePiece"};

}  // namespace

const char* name_of(const Body& body) { return kNames[body.index()]; }

}  // namespace paceline::wire
