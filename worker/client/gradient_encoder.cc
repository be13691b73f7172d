#include "worker/client/gradient_encoder.h"

#include <algorithm>
#include <memory>

#include "common/params/vector_ops.h"

namespace paceline {
namespace {

// Frames begin on cache lines of their own.
constexpr std::size_t kAlignment = 64;
// Gradients on their way, at most: see the header.
constexpr std::size_t kBuffers = 2;

std::int64_t buffer_floats(std::size_t bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float)));
}

template <typename Float>
std::span<Float> part_of(std::span<Float> vector, Range part) {
  return vector.subspan(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.size()));
}

}  // namespace

bool GradientEncoder::lies_in(const Place& place, const ShardParts& parts) {
  const auto& part = parts[place.shard];
  return part && place.offset >= part->begin && place.offset + place.floats.size() <= part->end;
}

std::vector<GradientEncoder::Place> GradientEncoder::places_of(const Encoder& encoder,
                                                               const std::vector<Range>& ranges,
                                                               std::int64_t frame_floats,
                                                               const std::vector<Range>& fragments) {
  std::vector<Place> places;
  std::size_t begin = 0;
  for (std::size_t shard = ranges.size(); shard-- > 0;) {
    const Range& range = ranges[shard];
    const std::vector<std::int64_t> borders = borders_in(range, fragments, frame_floats);
    std::int64_t end = range.size();
    do {
      const std::int64_t offset = frame_begin(end, frame_floats, borders);
      const std::size_t bytes = encoder.bytes_of(end - offset);
      places.push_back({shard, offset, {range.begin + offset, range.begin + end}, begin, bytes});
      begin += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      end = offset;
    } while (end > 0);
  }
  return places;
}

GradientEncoder::GradientEncoder(Encoder encoder, const std::vector<Range>& ranges, std::int64_t frame_floats,
                                 const std::vector<Range>& fragments)
    : encoder_(encoder),
      shards_(ranges.size()),
      places_(places_of(encoder, ranges, frame_floats, fragments)),
      buffers_(buffer_floats(places_.back().begin + places_.back().bytes), kBuffers),
      encoded_(places_.size()),
      missing_(places_.size()) {}

std::span<std::byte> GradientEncoder::bytes_at(const Place& place) const {
  return {reinterpret_cast<std::byte*>(buffer_->writable_data()) + place.begin, place.bytes};
}

std::vector<std::vector<EncodedFrame>> GradientEncoder::encode(std::span<const float> gradient,
                                                               const ShardParts& parts) {
  if (!buffer_) {
    buffer_ = std::make_shared<BlockRef>(buffers_.acquire());
    bytes_ = buffer_;
  }
  if (!only_rounds(encoder_.encoding) && residual_.empty()) residual_.resize(gradient.size());
  const auto asked = std::count_if(places_.begin(), places_.end(),
                                   [&](const Place& place) { return lies_in(place, parts); });
  const bool becomes_whole = static_cast<std::size_t>(asked) == missing_;
  const bool feedback = !only_rounds(encoder_.encoding);
  std::vector<std::vector<EncodedFrame>> frames(shards_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (!lies_in(place, parts)) {
      if (becomes_whole && feedback) update_residual(gradient, place);
      continue;
    }
    PACELINE_ASSERT(!encoded_[i], "a frame is encoded twice");
    const std::span<std::byte> out = bytes_at(place);
    if (feedback) {
      encode_owed(gradient, place, becomes_whole);
    } else {
      encoder_.encode(part_of(gradient, place.floats), out);
    }
    encoded_[i] = true;
    --missing_;
    frames[place.shard].push_back(
        {place.offset, {buffer_, out.data(), out.size(), encoder_.encoding, place.floats.size()}});
  }
  if (missing_ == 0) begin_next();
  return frames;
}

void GradientEncoder::begin_next() {
  buffer_.reset();
  encoded_.assign(places_.size(), false);
  missing_ = places_.size();
}

void GradientEncoder::encode_owed(std::span<const float> gradient, const Place& place, bool whole) {
  std::span<float> owed = part_of(std::span(residual_), place.floats);
  if (!whole) {
    owed_.assign(owed.begin(), owed.end());
    owed = owed_;
  }
  add_weighted(owed, part_of(gradient, place.floats), 1.0F);
  encoder_.encode(owed, bytes_at(place));
  if (whole) subtract_sent(owed, place);
}

void GradientEncoder::update_residual(std::span<const float> gradient, const Place& place) {
  const std::span<float> owed = part_of(std::span(residual_), place.floats);
  add_weighted(owed, part_of(gradient, place.floats), 1.0F);
  subtract_sent(owed, place);
}

void GradientEncoder::subtract_sent(std::span<float> owed, const Place& place) {
  sent_.resize(owed.size());
  const Status decoded = decode(encoder_.encoding, bytes_at(place), sent_);
  PACELINE_ASSERT(decoded.is_ok(), decoded.message());
  subtract(owed, owed, sent_);
  // A sum beyond float32 has been sent as what it is, and inf - inf would be owed for ever.
  if (first_non_finite(owed)) std::fill(owed.begin(), owed.end(), 0.0F);
}

}  // namespace paceline
