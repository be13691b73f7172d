// The two halves of the codec, between a plain struct and its protobuf: only codec*.cc include this.
#pragma once

#include "common/status.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

// codec_encode.cc: cannot fail; free text is made printable and bounded.
proto::Header to_proto(const Message& message);
void put_beside(const Beside& beside, proto::Header& header);

// codec_decode.cc: every field checked, payload aside. Errors: kInvalidArgument.
Result<Body> from_proto(const proto::Header& header);
Result<Beside> beside_of(const proto::Header& header);

Result<std::optional<Logged>> logged_of(const proto::Header& header);

// codec_decode.cc: how the payload says its floats. Errors: kInvalidArgument.
struct PayloadForm {
  Encoding encoding = Encoding::kFp32;
  std::int64_t floats = 0;  // 0 where float32
};
Result<PayloadForm> payload_form(const proto::Header& header);

}  // namespace paceline::wire
