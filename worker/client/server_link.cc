#include "worker/client/server_link.h"

#include <algorithm>
#include <cstdio>

namespace paceline {

Status ServerLink::check_silence(Ticks now, std::chrono::nanoseconds lease) const {
  if (!welcomed || now - heard <= lease) return Status::ok();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", to_seconds(now - heard));
  return deadline_exceeded(name() + " silent for " + seconds + " s");
}

template <typename Body>
Status ServerLink::send_in_frames(Body body, const std::shared_ptr<const void>& owner, const float* values,
                                  std::int64_t frame_bytes) {
  const std::int64_t frame = frame_floats(frame_bytes);
  std::int64_t offset = 0;
  do {  // an empty range still sends its one, last, empty frame: the shard counts it like any other
    const std::int64_t floats = std::min(frame, range.size() - offset);
    body.offset = offset;
    body.last = offset + floats == range.size();
    wire::Payload payload{owner, reinterpret_cast<const std::byte*>(values + offset),
                          static_cast<std::size_t>(floats) * sizeof(float)};
    PACELINE_RETURN_IF_ERROR(socket->send({body, std::move(payload)}).with_context("to " + name()));
    offset += floats;
  } while (offset < range.size());
  return Status::ok();
}

Status ServerLink::send_encoded(wire::Push push, const std::vector<EncodedFrame>& frames) {
  for (const EncodedFrame& frame : frames) {
    push.offset = frame.offset;
    push.last = &frame == &frames.back();
    PACELINE_RETURN_IF_ERROR(socket->send({push, frame.payload}).with_context("to " + name()));
  }
  return Status::ok();
}

template Status ServerLink::send_in_frames(wire::Push, const std::shared_ptr<const void>&, const float*,
                                           std::int64_t);
template Status ServerLink::send_in_frames(wire::InitialParameters, const std::shared_ptr<const void>&,
                                           const float*, std::int64_t);

}  // namespace paceline
