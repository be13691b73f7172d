// SharedFloats: floats that several hold and nobody changes, whatever kind of memory they lie in.
#pragma once

#include <memory>
#include <span>
#include <utility>

namespace paceline {

// Copying shares. The floats stay as they are while a copy lives.
struct SharedFloats {
  std::shared_ptr<const void> owner;
  std::span<const float> floats;

  SharedFloats() = default;
  SharedFloats(std::shared_ptr<const void> holder, std::span<const float> held)
      : owner(std::move(holder)), floats(held) {}
  // All elements of a contiguous container that is held.
  template <typename Container>
  SharedFloats(std::shared_ptr<Container> container)  // NOLINT: implicit, it is the same floats
      : owner(container), floats(*container) {}
};

}  // namespace paceline
