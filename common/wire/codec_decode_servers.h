// What servers say to each other, read from the network: the authority, the other shards and the replicas. Each
// takes the reader of the message's fields, which remembers what is wrong (fields.h). Only codec_decode*.cc
// include this.
#pragma once

#include "common/wire/fields.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

Body read(Fields& f, const proto::ShardJoin& in);
Body read(Fields& f, const proto::ShardWelcome& in);
Body read(Fields& f, const proto::ShardReady& in);
Body read(Fields& f, const proto::GradientArrived& in);
Body read(Fields& f, const proto::ApplyDecision& in);
Body read(Fields& f, const proto::DiscardGradient& in);
Body read(Fields& f, const proto::NodeLost& in);
Body read(Fields& f, const proto::NodeAdmitted& in);
Body read(Fields& f, const proto::Release& in);
Body read(Fields& f, const proto::Saved& in);
Body read(Fields& f, const proto::ForgetSaved& in);
Body read(Fields& f, const proto::StopRun& in);
Body read(Fields& f, const proto::ShardReport& in);
Body read(Fields& f, const proto::ReplicaJoin& in);
Body read(Fields& f, const proto::HandOver& in);
Body read(Fields& f, const proto::ReplicaResumes& in);
Body read(Fields& f, const proto::FilePull& in);
Body read(Fields& f, const proto::FilePiece& in);
Body read(Fields& f, const proto::ReplicaWelcome& in);
Body read(Fields& f, const proto::LogAck& in);
Body read(Fields& f, const proto::LocalEvent& in);

}  // namespace paceline::wire
