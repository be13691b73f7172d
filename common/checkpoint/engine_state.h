// The bytes of a synchronisation core's state in a checkpoint (proto/checkpoint_engine.proto). Where they
// lie, and the checksum over them, is the checkpoint's to see to (server/checkpoint/).
//
// What is refused here is wrong form; whether a state can be that of a run is sync::validate()'s to say, and
// Engine::resumed() asks it.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "common/sync/engine_state.h"

namespace paceline::checkpoint {

// The same state gives the same bytes. Thread: any.
std::string to_bytes(const sync::EngineState& state);

// Bytes may come from a damaged file: any are taken. What is allocated is at most some 50 times their length.
// Errors: kDataLoss, naming the field: no such message, another format, lists that are not of one length,
// more workers than nodes x threads, what is left not ascending, a policy of no known name.
Result<sync::EngineState> engine_state_from_bytes(std::string_view bytes);

}  // namespace paceline::checkpoint
