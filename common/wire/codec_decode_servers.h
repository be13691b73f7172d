// What servers say to each other, read from the network: the authority, the other shards and the replicas. Each
// takes the reader of the message's fields, which remembers what is wrong (fields.h). Only codec_decode*.cc
// include this.
#pragma once

#include "common/wire/fields.h"
#include "common/wire/message_table.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

#define PACELINE_READ(Struct, field, kCase) Body read(Fields& f, const proto::Struct& in);
PACELINE_SERVER_MESSAGES(PACELINE_READ)
#undef PACELINE_READ

}  // namespace paceline::wire
