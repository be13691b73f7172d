// What both directions of the codec use: only codec*.cc include this.
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

// codec.cc, for both directions. Errors: kInvalidArgument, they do not fit together; more than kHeaderBytesMax.
Status check_payload(const Body& body, const Payload& payload);
Status check_header_size(std::size_t bytes);

}  // namespace paceline::wire
