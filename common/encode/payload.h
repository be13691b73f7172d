// Payload: floats as bytes that somebody else keeps, as they are sent, received, or lie in a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/assert.h"
#include "common/encode/encoding.h"

namespace paceline {

// Bytes that stay valid while `owner` lives: sent without a copy, or received into the library's own buffer.
struct Payload {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  // How the bytes say floats, and how many where their number does not: Push and Parameters say it on the
  // wire. The codec has checked that they fit (fits()) and that data is aligned for float.
  Encoding encoding = Encoding::kFp32;
  std::int64_t encoded_floats = 0;  // 0 where float32: size says it
  // Received, and in the sender's own memory, which it cannot use again while `owner` lives: whoever keeps
  // the bytes for long copies them.
  bool borrowed = false;

  bool empty() const { return size == 0; }
  // How many floats these are.
  std::int64_t count() const {
    return encoding == Encoding::kFp32 ? static_cast<std::int64_t>(size / sizeof(float)) : encoded_floats;
  }
  std::span<const std::byte> bytes() const { return {data, size}; }
  // The bytes as float32, which they are.
  std::span<const float> floats() const {
    PACELINE_ASSERT(encoding == Encoding::kFp32, "a payload that is to be decoded first");
    return {reinterpret_cast<const float*>(data), size / sizeof(float)};
  }
};

}  // namespace paceline
