// Pin: what is asked of whoever computes on a device for memory of another process that is mapped here: that
// the device may read it by itself, as a GPU reads page-locked memory. Else each copy to it goes through
// memory of the driver's, which the thread that asks for it has to wait for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace paceline::wire {

// Of whole pages that are there and are only read: they are pinned for as long as what is returned lives;
// null: they could not be. Empty: nobody reads by himself. Called by the socket's thread.
using Pin = std::function<std::shared_ptr<void>(std::span<const std::byte> pages)>;

}  // namespace paceline::wire
