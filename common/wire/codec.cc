// Rules of form for both directions (codec_encode.cc, codec_decode.cc): which bytes may be a message's payload, and how
// large a header may be.
#include <bit>

#include "common/wire/codec_proto.h"

namespace paceline::wire {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are little endian and sent as they lie in memory");

// A message that carries floats: where they belong, and whether they are the last.
struct Piece {
  std::int64_t offset;
  bool last;
};

std::optional<Piece> piece_of(const Body& body) {
  return std::visit(
      [](const auto& message) -> std::optional<Piece> {
        if constexpr (requires { Piece{message.offset, message.last}; }) {
          return Piece{message.offset, message.last};
        } else {
          return std::nullopt;
        }
      },
      body);
}

Status wrong_payload(const Body& body, std::size_t got, const std::string& expected) {
  return invalid_argument(std::string(name_of(body)) + ".payload: got " + std::to_string(got) +
                          " bytes, expected " + expected);
}

std::string name_of(Encoding encoding) {
  constexpr const char* kEncodingNames[] = {"fp32", "fp16", "bf16", "int8", "top_k", "zero"};
  return kEncodingNames[static_cast<std::size_t>(encoding)];
}

bool may_come_in(Encoding encoding, const Body& body) {
  if (std::holds_alternative<Push>(body)) return true;
  return std::holds_alternative<Parameters>(body) ? only_rounds(encoding) : encoding == Encoding::kFp32;
}

}  // namespace

Status check_payload(const Body& body, const Payload& payload) {
  const std::size_t bytes = payload.size;
  if (std::holds_alternative<FilePiece>(body)) {  // bytes, not floats
    const bool fits = bytes <= kPayloadBytesMax && payload.encoding == Encoding::kFp32;
    return fits ? Status::ok() : wrong_payload(body, bytes, "at most " + std::to_string(kPayloadBytesMax));
  }
  const std::optional<Piece> piece = piece_of(body);
  if (!piece.has_value()) return bytes == 0 ? Status::ok() : wrong_payload(body, bytes, "none");
  if (bytes > kPayloadBytesMax) {
    return wrong_payload(body, bytes, "at most " + std::to_string(kPayloadBytesMax));
  }
  if (!may_come_in(payload.encoding, body)) {
    return wrong_payload(body, bytes, "none as " + name_of(payload.encoding));
  }
  if (payload.encoding == Encoding::kFp32 && bytes % sizeof(float) != 0) {
    return wrong_payload(body, bytes, "a multiple of 4");
  }
  if (!fits(payload.encoding, payload.count(), bytes)) {
    return wrong_payload(body, bytes,
                         std::to_string(payload.count()) + " floats as " + name_of(payload.encoding));
  }
  // A shard with an empty range still takes part: its piece is empty, the first and the last.
  if (payload.count() == 0 && !(piece->offset == 0 && piece->last)) {
    return wrong_payload(body, bytes, "at least one float (offset " + std::to_string(piece->offset) + ")");
  }
  if (piece->offset > kFloatsMax - payload.count()) {
    return wrong_payload(body, bytes, "offset " + std::to_string(piece->offset) + " + floats at most 2^40");
  }
  return Status::ok();
}

Status check_header_size(std::size_t bytes) {
  if (bytes <= kHeaderBytesMax) return Status::ok();
  return invalid_argument("header: got " + std::to_string(bytes) + " bytes, expected at most " +
                          std::to_string(kHeaderBytesMax));
}

}  // namespace paceline::wire
