// What servers say to each other, written for the network: codec_decode_servers.h reads it. Only codec_encode*.cc
// include this.
#pragma once

#include "common/wire/message_table.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

#define PACELINE_PUT(Struct, field, kCase) void put(const Struct& m, proto::Struct& out);
PACELINE_SERVER_MESSAGES(PACELINE_PUT)
#undef PACELINE_PUT

}  // namespace paceline::wire
