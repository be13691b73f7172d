// What servers say to each other, written for the network: codec_decode_servers.h reads it. Only codec_encode*.cc
// include this.
#pragma once

#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

void put(const ShardJoin& m, proto::Header& header);
void put(const ShardWelcome& m, proto::Header& header);
void put(const ShardReady& m, proto::Header& header);
void put(const GradientArrived& m, proto::Header& header);
void put(const ApplyDecision& m, proto::Header& header);
void put(const DiscardGradient& m, proto::Header& header);
void put(const NodeLost& m, proto::Header& header);
void put(const NodeAdmitted& m, proto::Header& header);
void put(const Release& m, proto::Header& header);
void put(const Saved& m, proto::Header& header);
void put(const ForgetSaved& m, proto::Header& header);
void put(const StopRun& m, proto::Header& header);
void put(const ShardReport& m, proto::Header& header);
void put(const ReplicaJoin& m, proto::Header& header);
void put(const ReplicaWelcome& m, proto::Header& header);
void put(const HandOver& m, proto::Header& header);
void put(const ReplicaResumes& m, proto::Header& header);
void put(const FilePull& m, proto::Header& header);
void put(const FilePiece& m, proto::Header& header);
void put(const LogAck& m, proto::Header& header);
void put(const LocalEvent& m, proto::Header& header);

}  // namespace paceline::wire
