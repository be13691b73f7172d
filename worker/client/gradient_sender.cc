#include "worker/client/gradient_sender.h"

#include <algorithm>
#include <utility>

namespace paceline {

// Where a server reads the gradient in place there is nothing to leave: it is held until it is applied.
Status GradientPart::send(ServerLink& link, std::int64_t frame_bytes) const {
  const std::size_t shard = link.shard.value;
  if (!floats[shard]) return Status::ok();
  wire::Push to_shard = push;
  if (!slices.empty()) to_shard.computed_revision = slices[shard];
  if (!encoded.empty()) {
    return link.send_encoded(to_shard, part, encoded[shard], frame_bytes, *floats[shard]);
  }
  const bool in_place = link.socket->shares_memory().is_ok();
  return link.send_gradient(to_shard, in_place ? values.owner : part,
                            values.floats.data() + link.part.own.begin, frame_bytes, *floats[shard]);
}

GradientPart GradientPart::kept() const {
  GradientPart copy = *this;
  copy.whole.reset();
  copy.part.reset();
  return copy;
}

void GradientPart::mark_retransmitted() {
  if (encoded.empty()) {
    whole = std::make_shared<const SharedFloats>(values);
  } else {  // each frame holds all of its gradient's bytes
    const auto some = std::find_if(encoded.begin(), encoded.end(), [](const auto& f) { return !f.empty(); });
    whole = std::make_shared<const std::shared_ptr<const void>>(
        some == encoded.end() ? nullptr : some->front().payload.owner);
  }
  part = whole;
}

GradientSender::GradientSender(const std::vector<Range>& shards, std::int64_t frame_floats,
                               std::optional<Encoder> encoder, Ticks (*now)(),
                               const std::vector<Range>& fragments)
    : frames_(shards, frame_floats, fragments), now_(now) {
  if (encoder) encoder_.emplace(*encoder, shards, frame_floats, fragments);
}

GradientPart GradientSender::part_of(const Contribution& gradient, ShardParts floats) {
  GradientPart part;
  part.push = {gradient.worker,
               gradient.clock,
               0,
               false,
               gradient.samples,
               gradient.computed_version,
               gradient.computed_revision,
               gradient.own_updates};
  part.slices = gradient.slices;
  if (encoder_) {
    part.encoded = encoder_->encode(gradient.values.floats, floats);
    if (!whole_) whole_ = std::make_shared<const std::shared_ptr<const void>>(encoder_->bytes());
  } else {
    part.values = gradient.values;
    // An owner of its own: it says when this push has left, whoever else holds the gradient.
    if (!whole_) whole_ = std::make_shared<const SharedFloats>(gradient.values);
  }
  part.whole = whole_;
  part.part = whole_;
  part.floats = std::move(floats);
  return part;
}

std::optional<GradientPart> GradientSender::early(const Contribution& gradient, std::int64_t begin) {
  std::optional<ShardParts> floats = frames_.extend(begin);
  if (!floats) return std::nullopt;
  GradientPart part = part_of(gradient, *std::move(floats));
  part.part = watched(part.whole);
  for (const auto& shard : part.floats) {
    if (shard && !encoder_) early_bytes_ += shard->size() * static_cast<std::int64_t>(sizeof(float));
  }
  for (const auto& frames : part.encoded) {
    for (const EncodedFrame& frame : frames) {
      early_bytes_ += static_cast<std::int64_t>(frame.payload.size);
    }
  }
  return part;
}

std::shared_ptr<const void> GradientSender::watched(std::shared_ptr<const void> whole) {
  struct Watch {
    std::shared_ptr<const void> whole;
    std::shared_ptr<std::atomic<std::int64_t>> left;
    Ticks (*now)();
    ~Watch() { *left = now().ns; }
  };
  early_.push_back({now_(), std::make_shared<std::atomic<std::int64_t>>(0)});
  return std::shared_ptr<const Watch>(new Watch{std::move(whole), early_.back().left, now_});
}

// Parts overlap on their way, and there may be none on it for a while.
EarlyPush GradientSender::pushed_early(Ticks until) const {
  EarlyPush early;
  early.bytes = early_bytes_;
  Ticks counted;
  for (const OnItsWay& part : early_) {
    const std::int64_t left = *part.left;
    const Ticks end = left == 0 ? until : std::min(until, Ticks(left));
    const Ticks begin = std::max(counted, part.since);
    if (end <= begin) continue;
    early.hidden += end - begin;
    counted = end;
  }
  return early;
}

GradientPart GradientSender::rest(const Contribution& gradient) {
  GradientPart part = part_of(gradient, frames_.rest());
  begin_next();
  return part;
}

std::optional<std::vector<bool>> GradientSender::withdraw() {
  if (encoder_) encoder_->withdraw();
  begin_next();
  return frames_.withdraw();
}

void GradientSender::begin_next() {
  whole_.reset();
  early_.clear();
  early_bytes_ = 0;
}

}  // namespace paceline
