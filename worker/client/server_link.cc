#include "worker/client/server_link.h"

#include <algorithm>
#include <cstdio>

namespace paceline {
namespace {

wire::Payload payload_of(const std::shared_ptr<const void>& owner, const float* values, std::int64_t floats) {
  return {owner, reinterpret_cast<const std::byte*>(values),
          static_cast<std::size_t>(floats) * sizeof(float)};
}

}  // namespace

// The name is put together only where it is read: this is called some times a step.
Status ServerLink::send(wire::Message message) const {
  Status sent = socket->send(std::move(message));
  return sent.is_ok() ? std::move(sent) : std::move(sent).with_context("to " + name());
}

Status ServerLink::check(const wire::Welcome& welcome) const {
  if (welcome.shard == shard && welcome.range == range) return Status::ok();
  const auto text = [](const Range& r) {
    return "[" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")";
  };
  return invalid_argument("welcomes us as shard " + to_string(welcome.shard) + " with " +
                          text(welcome.range) + ", expected shard " + to_string(shard) + " with " +
                          text(range));
}

Status ServerLink::check_silence(Ticks now, std::chrono::nanoseconds lease) const {
  if (!welcomed() || now - last_received <= lease) return Status::ok();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", to_seconds(now - last_received));
  return deadline_exceeded(name() + " silent for " + seconds + " s");
}

Status ServerLink::send_initial(const std::shared_ptr<const void>& owner, const float* values,
                                std::int64_t frame_bytes) {
  if (initialized) return Status::ok();
  const std::int64_t frame = frame_floats(frame_bytes);
  std::int64_t offset = 0;
  do {  // an empty range still sends its one, last, empty frame: the shard is ready with it
    const std::int64_t end = std::min(range.size(), offset + frame);
    wire::Message piece{wire::InitialParameters{offset, end == range.size()},
                        payload_of(owner, values + offset, end - offset)};
    PACELINE_RETURN_IF_ERROR(send(std::move(piece)));
    offset = end;
  } while (offset < range.size());
  return Status::ok();
}

Status ServerLink::send_state(const std::shared_ptr<const RunState>& state, std::int64_t frame_bytes) {
  const std::int64_t frame = frame_floats(frame_bytes);
  const std::vector<Range> all = {{0, std::ssize(state->floats)}};
  const float* floats = state->floats.data();
  for (const Range& floats_here : state->parts ? *state->parts : all) {
    std::int64_t offset = floats_here.begin;
    do {
      const std::int64_t of_vector = range.size() - (range.size() == 0 ? 0 : offset % range.size());
      const std::int64_t end = std::min(floats_here.end, offset + std::min(frame, of_vector));
      wire::Message piece{wire::NodeState{state->version, offset}, payload_of(state, floats, end - offset)};
      PACELINE_RETURN_IF_ERROR(send(std::move(piece)));
      floats += end - offset;
      offset = end;
    } while (offset < floats_here.end);
  }
  return Status::ok();
}

Status ServerLink::send_gradient(const wire::Push& push, const std::shared_ptr<const void>& owner,
                                 const float* values, std::int64_t frame_bytes, Range floats) {
  const std::int64_t frame = frame_floats(frame_bytes);
  const Range own = part.of_shard();
  PACELINE_RETURN_IF_ERROR(send_zeros_above(push, frame_bytes, floats));
  const std::int64_t begin = own.begin + floats.begin;
  std::int64_t end = own.begin + floats.end;
  while (end > begin || range.size() == 0) {
    // On the grid of the shard's blocks, but for what begins or ends at the tail.
    const std::int64_t offset = std::max(begin, (end - 1) / frame * frame);
    const float* const from = values + (offset - own.begin);
    PACELINE_RETURN_IF_ERROR(send_piece(push, offset, payload_of(owner, from, end - offset)));
    if (range.size() == 0) break;  // its one, last, empty frame: the shard counts it like any other
    end = offset;
  }
  return send_zeros_below(push, frame_bytes, floats);
}

Status ServerLink::send_zeros_above(const wire::Push& push, std::int64_t frame_bytes, Range floats) {
  const Range own = part.of_shard();
  return floats.end == own.size() ? send_zeros(push, frame_bytes, {own.end, range.size()}) : Status::ok();
}

Status ServerLink::send_zeros_below(const wire::Push& push, std::int64_t frame_bytes, Range floats) {
  return floats.begin == 0 ? send_zeros(push, frame_bytes, {0, part.in_shard}) : Status::ok();
}

Status ServerLink::send_zeros(const wire::Push& push, std::int64_t frame_bytes, Range floats) {
  const std::int64_t frame = frame_floats(frame_bytes);
  for (std::int64_t end = floats.end; end > floats.begin;) {
    const std::int64_t offset = std::max(floats.begin, (end - 1) / frame * frame);
    wire::Payload zeros;
    zeros.encoding = Encoding::kZero;
    zeros.encoded_floats = end - offset;
    PACELINE_RETURN_IF_ERROR(send_piece(push, offset, std::move(zeros)));
    end = offset;
  }
  return Status::ok();
}

Status ServerLink::send_encoded(const wire::Push& push, const std::shared_ptr<const void>& owner,
                                const std::vector<EncodedFrame>& frames, std::int64_t frame_bytes,
                                Range floats) {
  PACELINE_RETURN_IF_ERROR(send_zeros_above(push, frame_bytes, floats));
  for (const EncodedFrame& frame : frames) {
    if (frame.payload.count() == 0 && range.size() > 0) continue;  // of what it does not train: all is zero
    wire::Payload payload = frame.payload;
    payload.owner = owner;
    PACELINE_RETURN_IF_ERROR(send_piece(push, part.in_shard + frame.offset, std::move(payload)));
  }
  return send_zeros_below(push, frame_bytes, floats);
}

Status ServerLink::send_piece(wire::Push push, std::int64_t offset, wire::Payload payload) {
  push.offset = offset;
  push.last = offset == 0;
  if (!push.last) push.samples = 0;
  return send({push, std::move(payload)});
}

}  // namespace paceline
