// The two halves of the codec, between a plain struct and its protobuf: only codec*.cc include this.
#pragma once

#include <google/protobuf/arena.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/status.h"
#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

// Where headers lie as protobufs while they are read or written: on the stack, with all that they have, as
// far as they are those of steps; what is more lies on the heap. Nothing in it outlives it.
class Scratch {
 public:
  // An empty one, to be read from so many bytes, where it is to be read. What a large one says again and
  // again (a body in another's place) does not pile up, as it would in an arena.
  proto::Header& header(std::size_t bytes = 0) {
    if (bytes > sizeof first_) return *large_.emplace_back(std::make_unique<proto::Header>());
    return *google::protobuf::Arena::CreateMessage<proto::Header>(&arena_);
  }

 private:
  alignas(std::max_align_t) char first_[2048];
  google::protobuf::Arena arena_{first_, sizeof first_};
  std::vector<std::unique_ptr<proto::Header>> large_;
};

// codec_encode.cc: into an empty header; cannot fail; free text is made printable and bounded.
void put_message(const Message& message, proto::Header& header);
void put_beside(const Beside& beside, proto::Header& header);

// codec_decode.cc: every field checked, payload aside. Errors: kInvalidArgument.
Result<Body> from_proto(const proto::Header& header);
Result<Beside> beside_of(const proto::Header& header);

Result<std::optional<LogEntry>> logged_of(const proto::Header& header);

// codec_decode.cc: how the payload says its floats. Errors: kInvalidArgument.
struct PayloadForm {
  Encoding encoding = Encoding::kFp32;
  std::int64_t floats = 0;  // 0 where float32
};
Result<PayloadForm> payload_form(const proto::Header& header);

}  // namespace paceline::wire
