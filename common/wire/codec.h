// The one codec: a Message to its header frame and back. It checks the FORM of everything that comes from the
// network (sizes, ranges, counts, presence), so that nothing behind it has to fear an overflow or an
// allocation; what a well-formed message means in the present state is for the receiver to judge. Nothing a
// peer sends reaches an assertion. The bytes: docs/PROTOCOL.md.
//
// Thread: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::wire {

// Limits of form. A value beyond them is a kInvalidArgument that names field, got and expected.
inline constexpr std::int64_t kNodesMax = 1 << 16;
inline constexpr std::int64_t kThreadsMax = 1 << 12;  // of one node
inline constexpr std::int64_t kShardsMax = 1 << 12;
inline constexpr std::int64_t kFloatsMax = std::int64_t{1} << 40;   // in one model
inline constexpr std::int64_t kCountMax = std::int64_t{1} << 60;    // clocks, versions, bytes, nanoseconds
inline constexpr std::int64_t kSamplesMax = std::int64_t{1} << 32;  // of one iteration or one evaluation
inline constexpr std::int64_t kTensorsMax = 1 << 16;
inline constexpr std::int64_t kTensorRankMax = 16;
inline constexpr std::int64_t kTensorNameBytesMax = 256;
inline constexpr std::int64_t kTextBytesMax = 4096;
inline constexpr std::int64_t kContributionsMax = 1'000'000;

// The header frame of `message`. Free text (reasons, faults, error messages) is made printable and cut to
// kTextBytesMax. Errors: kInvalidArgument when the header would exceed kHeaderBytesMax (a layout with very
// many tensors) or when payload and message do not fit together, by the same rules as in decode().
Result<std::string> encode(const Message& message);

// The message of a header frame and its payload frame (empty when there was none), whose bytes are of the
// number that its encoding asks for. The payload is not copied unless it is not aligned for float, nor
// decoded. A Join or ShardJoin of another protocol version is delivered with that version and its sender
// alone, so that the receiver can name both; of everything else each field is checked. Errors:
// kInvalidArgument "<Message>.<field>: got <x>, expected <y>".
Result<Message> decode(std::string_view header, Payload payload);

}  // namespace paceline::wire
