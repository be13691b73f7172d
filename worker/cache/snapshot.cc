#include "worker/cache/snapshot.h"

#include "common/params/vector_ops.h"

namespace paceline {

// The allocator recycles it (common/wire/memory.h).
Payload in_own_memory(Payload payload, const Range& range) {
  if (!payload.borrowed) return payload;
  const std::shared_ptr<std::byte[]> copy(new std::byte[payload.size]);
  const std::span<const float> values = payload.floats();
  copy_part({reinterpret_cast<float*>(copy.get()), values.size()}, values, range.size());
  payload.owner = copy;
  payload.data = copy.get();
  payload.borrowed = false;
  return payload;
}

void SlicePiece::copy_to(std::span<float> flat, const Range& range) const {
  const std::span<const float> floats = payload.floats();
  const std::int64_t begin = range.begin + offset;
  PACELINE_ASSERT(begin + static_cast<std::int64_t>(floats.size()) <= static_cast<std::int64_t>(flat.size()),
                  "a slice reaches beyond the parameter vector");
  copy_part(flat.subspan(static_cast<std::size_t>(begin), floats.size()), floats, std::ssize(flat));
}

void Slice::copy_to(std::span<float> flat) const {
  std::int64_t held = 0;
  for (const SlicePiece& piece : pieces) held += std::ssize(piece.payload.floats());
  PACELINE_ASSERT(held == range.size(), "a slice of which a part has been copied in elsewhere is copied");
  for (const SlicePiece& piece : pieces) piece.copy_to(flat, range);
}

}  // namespace paceline
