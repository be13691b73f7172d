// All messages, one line each: the struct (common/wire/messages.h), whose name its protobuf has, too; its field in a
// Header (proto/paceline.proto); and that field's case. Names, the encoder and the decoder are made of this list.
#pragma once

// What nodes and servers say to each other.
#define PACELINE_NODE_MESSAGES(X)                              \
  X(Join, join, kJoin)                                         \
  X(Welcome, welcome, kWelcome)                                \
  X(InitialParameters, initial_parameters, kInitialParameters) \
  X(Push, push, kPush)                                         \
  X(StepReport, step_report, kStepReport)                      \
  X(Pull, pull, kPull)                                         \
  X(Parameters, parameters, kParameters)                       \
  X(Unchanged, unchanged, kUnchanged)                          \
  X(Grant, grant, kGrant)                                      \
  X(HeldNotice, held_notice, kHeldNotice)                      \
  X(FinishWorker, finish_worker, kFinishWorker)                \
  X(Evaluate, evaluate, kEvaluate)                             \
  X(EvaluationReport, evaluation_report, kEvaluationReport)    \
  X(NodeReport, node_report, kNodeReport)                      \
  X(Leave, leave, kLeave)                                      \
  X(RunOver, run_over, kRunOver)                               \
  X(Heartbeat, heartbeat, kHeartbeat)                          \
  X(Error, error, kError)                                      \
  X(Withdraw, withdraw, kWithdraw)                             \
  X(NodeReady, node_ready, kNodeReady)                         \
  X(Peers, peers, kPeers)                                      \
  X(StateWanted, state_wanted, kStateWanted)                   \
  X(NodeState, node_state, kNodeState)

// What servers say to each other.
#define PACELINE_SERVER_MESSAGES(X)                      \
  X(ShardJoin, shard_join, kShardJoin)                   \
  X(ShardWelcome, shard_welcome, kShardWelcome)          \
  X(ShardReady, shard_ready, kShardReady)                \
  X(GradientArrived, gradient_arrived, kGradientArrived) \
  X(ApplyDecision, apply_decision, kApplyDecision)       \
  X(DiscardGradient, discard_gradient, kDiscardGradient) \
  X(NodeLost, node_lost, kNodeLost)                      \
  X(Release, release, kRelease)                          \
  X(ShardReport, shard_report, kShardReport)             \
  X(Saved, saved, kSaved)                                \
  X(ForgetSaved, forget_saved, kForgetSaved)             \
  X(StopRun, stop_run, kStopRun)                         \
  X(NodeAdmitted, node_admitted, kNodeAdmitted)          \
  X(ReplicaJoin, replica_join, kReplicaJoin)             \
  X(ReplicaWelcome, replica_welcome, kReplicaWelcome)    \
  X(LogAck, log_ack, kLogAck)                            \
  X(LocalEvent, local_event, kLocalEvent)                \
  X(Reconfigure, reconfigure, kReconfigure)              \
  X(ReplicaResumes, replica_resumes, kReplicaResumes)    \
  X(FilePull, file_pull, kFilePull)                      \
  X(FilePiece, file_piece, kFilePiece)

#define PACELINE_MESSAGES(X) PACELINE_NODE_MESSAGES(X) PACELINE_SERVER_MESSAGES(X)
