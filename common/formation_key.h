// What only the nodes of one formation know (server/authority/formations.h), in a run with keys: the authority draws it and
// tells them over connections that CURVE protects. By it they know each other (worker/mesh/seal.h). It is in no log.
#pragma once

#include <sys/random.h>

#include <array>
#include <cstddef>

#include "common/assert.h"

namespace paceline {

using FormationKey = std::array<std::byte, 32>;

inline FormationKey new_formation_key() {
  FormationKey key;
  // So few bytes come whole, whatever signals do.
  const ssize_t drawn = getrandom(key.data(), key.size(), 0);
  PACELINE_ASSERT(drawn == static_cast<ssize_t>(key.size()), "the system has no random numbers");
  return key;
}

}  // namespace paceline
