// The one codec: a Message to its header frame and back. It checks the FORM of everything that comes from the
// network (sizes, ranges, counts, presence), so that nothing after it has to fear an overflow or an
// allocation; what a well-formed message means in the present state is for the receiver to judge. Nothing a
// peer sends reaches an assertion. The bytes: docs/PROTOCOL.md.
//
// Thread: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/shared_memory.h"

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
inline constexpr std::int64_t kSettingsMax = 256;    // keys of a configuration
inline constexpr std::int64_t kAlgorithmsMax = 32;   // choices of an all-reduce, one for each size of buckets
inline constexpr std::int64_t kSparedMax = 16;       // checkpoints that stay beside the newest
inline constexpr std::int64_t kIntactMax = 1 << 12;  // files that a shard says it has

inline constexpr std::int64_t kLetGoMax = 1 << 16;  // in one message

// A payload's bytes in its sender's segment. `number`: the sender's, to name it when it is let go of.
struct Region {
  std::uint64_t number = 0;
  std::int64_t offset = 0;  // from the segment's begin, a multiple of 4
  std::int64_t bytes = 0;

  bool operator==(const Region&) const = default;
};

// What the transport itself says in a header, beside the body (common/wire/sharing.h).
struct Beside {
  std::optional<SegmentRef> segment{};  // the sender's own
  bool reads_segment = false;           // the sender has mapped the receiver's segment
  std::optional<Region> region{};       // the payload, in place of a payload frame
  std::vector<std::uint64_t> let_go{};  // the numbers of the receiver's regions that the sender has done with

  bool operator==(const Beside&) const = default;
};

// What an iteration says again and again, so that several may travel as one message: what was said just
// before and just after one of these lies in its header.
bool travels_with_others(const Body& body);
inline constexpr std::size_t kTogetherMax = 16;  // messages in one, with the one in whose header they lie

// Header frames of messages without a payload, in the order in which they were said.
struct Others {
  std::vector<std::string> before{};
  std::vector<std::string> after{};
};

// The header frame of `message`. Free text (reasons, faults, error messages) is made printable and cut to
// kTextBytesMax. Errors: kInvalidArgument when the header would exceed kHeaderBytesMax (a layout with very
// many tensors) or when payload and message do not fit together, by the same rules as in decode().
Result<std::string> encode(const Message& message);
// What is appended to a header frame that says this, too. By itself `beside`, which says something, is a
// header without a body, for the other transport alone.
std::string encode(const Beside& beside);
std::string encode(const Others& others);

// What a header frame says, each field checked. Without a body it says at least something beside one. A Join
// or ShardJoin of another protocol version has that version and its sender alone, so that the receiver can
// name both. Errors: kInvalidArgument "<Message>.<field>: got <x>, expected <y>".
struct Header {
  std::optional<Body> body{};
  Encoding encoding = Encoding::kFp32;  // of the payload
  std::int64_t encoded_floats = 0;      // as Payload's
  Beside beside{};
  std::optional<LogEntry> logged{};
  // Said just before and just after it: whole messages, without a payload.
  struct Other {
    Message message;
    std::size_t bytes;  // of its own header
  };
  std::vector<Other> before{};
  std::vector<Other> after{};
};
Result<Header> decode_header(std::string_view bytes);

// The message of a header with a body and its payload (empty when there is none), whose bytes are of the
// number that its encoding asks for; the header's others aside. The payload is not copied unless it is not
// aligned for float, nor decoded. Errors: kInvalidArgument, they do not fit together.
Result<Message> with_payload(Header header, Payload payload);

// Both in one, for a payload that came in a frame, and a header in which no other message lies.
Result<Message> decode(std::string_view header, Payload payload);

}  // namespace paceline::wire
