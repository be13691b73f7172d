// What servers say to each other, read from the network: the authority, the other shards and the replicas. Each
// takes the reader of the message's fields, which remembers what is wrong (fields.h). Only codec_decode*.cc
// include this.
#pragma once

#include <optional>

#include "common/status.h"
#include "common/wire/fields.h"
#include "common/wire/message_table.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

#define PACELINE_READ(Struct, field, kCase) Body read(Fields& f, const proto::Struct& in);
PACELINE_SERVER_MESSAGES(PACELINE_READ)
#undef PACELINE_READ

// Of an event in the log of a shard with replicas, what goes beside the message. Errors: kInvalidArgument.
Result<std::optional<LogEntry>> logged_of(const proto::Header& header);

}  // namespace paceline::wire
