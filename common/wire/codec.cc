// Header bytes and the rules of the payload frame. The fields themselves: codec_encode.cc and
// codec_decode.cc.
#include "common/wire/codec.h"

#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <cstring>

#include "common/assert.h"
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

// ZeroMQ may hand out small messages at any address inside its receive buffer.
Payload aligned_for_float(Payload payload) {
  if (reinterpret_cast<std::uintptr_t>(payload.data) % alignof(float) == 0) return payload;
  const std::shared_ptr<float[]> copy(new float[(payload.size + sizeof(float) - 1) / sizeof(float)]);
  std::memcpy(copy.get(), payload.data, payload.size);
  payload.data = reinterpret_cast<const std::byte*>(copy.get());
  payload.owner = copy;
  return payload;
}

Status check_header_size(std::size_t bytes) {
  if (bytes <= kHeaderBytesMax) return Status::ok();
  return invalid_argument("header: got " + std::to_string(bytes) + " bytes, expected at most " +
                          std::to_string(kHeaderBytesMax));
}

Result<const proto::Header*> parse(std::string_view bytes, Scratch& scratch) {
  proto::Header& header = scratch.header(bytes.size());
  if (header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return &header;
  return invalid_argument("header: got " + std::to_string(bytes.size()) +
                          " bytes that are no header, expected proto/paceline.proto's Header");
}

// `bytes`: what its ByteSizeLong() has just said.
std::string serialized(const proto::Header& header, std::size_t bytes) {
  std::string out(bytes, '\0');
  header.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(out.data()));
  return out;
}

// A field of bytes as Protocol Buffers writes it.
void append(int field, const std::string& bytes, std::string& out) {
  using google::protobuf::io::CodedOutputStream;
  constexpr std::uint32_t kLengthDelimited = 2;
  std::uint8_t begin[10];
  std::uint8_t* end = CodedOutputStream::WriteVarint32ToArray(
      static_cast<std::uint32_t>(field) << 3 | kLengthDelimited, begin);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(bytes.size()), end);
  out.append(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)).append(bytes);
}

Status check_travels(const Body& body) {
  if (travels_with_others(body)) return Status::ok();
  return invalid_argument("header: got a " + std::string(name_of(body)) +
                          " together with another message, expected it by itself");
}

// One of those that lie in another's header.
Result<Header::Other> other_of(const std::string& bytes, Scratch& scratch) {
  PACELINE_ASSIGN_OR_RETURN(const proto::Header* const parsed, parse(bytes, scratch));
  const proto::Header& in = *parsed;
  PACELINE_ASSIGN_OR_RETURN(const Beside beside, beside_of(in));
  if (beside != Beside{} || in.has_logged() || in.ahead_size() + in.behind_size() > 0) {
    return invalid_argument("header: got more than a message in another's header, expected one");
  }
  PACELINE_ASSIGN_OR_RETURN(Body body, from_proto(in));
  PACELINE_RETURN_IF_ERROR(check_travels(body));
  PACELINE_ASSIGN_OR_RETURN(const PayloadForm form, payload_form(in));
  Payload none;
  none.encoding = form.encoding;
  none.encoded_floats = form.floats;
  PACELINE_RETURN_IF_ERROR(check_payload(body, none));
  return Header::Other{{std::move(body), std::move(none), {}}, bytes.size()};
}

Status add_others(const proto::Header& in, Header& header, Scratch& scratch) {
  const auto messages =
      1 + static_cast<std::size_t>(in.ahead_size()) + static_cast<std::size_t>(in.behind_size());
  if (messages > kTogetherMax) {
    return invalid_argument("header: got " + std::to_string(messages) + " messages, expected at most " +
                            std::to_string(kTogetherMax));
  }
  PACELINE_RETURN_IF_ERROR(check_travels(*header.body));
  for (const std::string& bytes : in.ahead()) {
    PACELINE_ASSIGN_OR_RETURN(Header::Other other, other_of(bytes, scratch));
    header.ahead.push_back(std::move(other));
  }
  for (const std::string& bytes : in.behind()) {
    PACELINE_ASSIGN_OR_RETURN(Header::Other other, other_of(bytes, scratch));
    header.behind.push_back(std::move(other));
  }
  return Status::ok();
}

}  // namespace

bool travels_with_others(const Body& body) {
  return std::visit(
      []<typename M>(const M&) {
        return (std::is_same_v<M, Push> || std::is_same_v<M, Withdraw> || std::is_same_v<M, StepReport> ||
                std::is_same_v<M, Pull> || std::is_same_v<M, Parameters> || std::is_same_v<M, Unchanged> ||
                std::is_same_v<M, Grant> || std::is_same_v<M, Held> || std::is_same_v<M, FinishWorker>);
      },
      body);
}

Result<std::string> encode(const Message& message) {
  PACELINE_RETURN_IF_ERROR(check_payload(message.body, message.payload));
  Scratch scratch;
  proto::Header& header = scratch.header();
  put_message(message, header);
  const std::size_t bytes = header.ByteSizeLong();
  if (bytes > kHeaderBytesMax) return check_header_size(bytes).with_context(name_of(message.body));
  return serialized(header, bytes);
}

// To Protocol Buffers what is appended to a message is part of it.
std::string encode(const Beside& beside) {
  Scratch scratch;
  proto::Header& header = scratch.header();
  put_beside(beside, header);
  return serialized(header, header.ByteSizeLong());
}

std::string encode(const Others& others) {
  std::string out;
  for (const std::string& other : others.ahead) append(proto::Header::kAheadFieldNumber, other, out);
  for (const std::string& other : others.behind) append(proto::Header::kBehindFieldNumber, other, out);
  return out;
}

Result<Header> decode_header(std::string_view bytes) {
  PACELINE_RETURN_IF_ERROR(check_header_size(bytes.size()));
  Scratch scratch;
  PACELINE_ASSIGN_OR_RETURN(const proto::Header* const parsed, parse(bytes, scratch));
  const proto::Header& in = *parsed;
  Header header;
  PACELINE_ASSIGN_OR_RETURN(header.beside, beside_of(in));
  const bool alone = in.ahead_size() + in.behind_size() == 0;
  const bool for_the_transport_alone =
      in.body_case() == proto::Header::BODY_NOT_SET && alone && header.beside != Beside{};
  if (for_the_transport_alone) {
    // What protobuf keeps besides, of a body that this version does not know, say, is not for the transport.
    if (encode(header.beside).size() == in.ByteSizeLong()) return header;
    return invalid_argument("header: got no body but unknown fields, expected a body or neither");
  }
  PACELINE_ASSIGN_OR_RETURN(header.body, from_proto(in));
  PACELINE_ASSIGN_OR_RETURN(header.logged, logged_of(in));
  PACELINE_ASSIGN_OR_RETURN(const PayloadForm form, payload_form(in));
  header.encoding = form.encoding;
  header.encoded_floats = form.floats;
  if (!alone) PACELINE_RETURN_IF_ERROR(add_others(in, header, scratch));
  return header;
}

Result<Message> with_payload(Header header, Payload payload) {
  PACELINE_ASSERT(header.body.has_value(), "a payload for a header without a body");
  payload.encoding = header.encoding;
  payload.encoded_floats = header.encoded_floats;
  PACELINE_RETURN_IF_ERROR(check_payload(*header.body, payload));
  return Message{*std::move(header.body), aligned_for_float(std::move(payload)), header.logged};
}

Result<Message> decode(std::string_view bytes, Payload payload) {
  PACELINE_ASSIGN_OR_RETURN(Header header, decode_header(bytes));
  if (!header.body) return invalid_argument("header: got no body, expected one");
  if (!header.ahead.empty() || !header.behind.empty()) {
    return invalid_argument("header: got several messages, expected one");
  }
  return with_payload(std::move(header), std::move(payload));
}

}  // namespace paceline::wire
