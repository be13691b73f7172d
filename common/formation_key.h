// What only the nodes of one formation know (server/authority/formations.h), in a run with keys: the authority draws it
// and tells them over connections that CURVE protects. By it they know each other (worker/mesh/seal.h). It is in no
// log.
#pragma once

#include <string.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "common/assert.h"

namespace paceline {

using FormationKey = std::array<std::byte, 32>;

inline FormationKey new_formation_key() {
  FormationKey key;
  // So few bytes come whole; a signal ends the wait that there may be while a system starts.
  ssize_t drawn = 0;
  do {
    drawn = getrandom(key.data(), key.size(), 0);
  } while (drawn < 0 && errno == EINTR);
  PACELINE_ASSERT(drawn == static_cast<ssize_t>(key.size()), "the system has no random numbers");
  return key;
}

// Where it has been used: its bytes are overwritten.
inline void forget(std::optional<FormationKey>& key) {
  if (key) explicit_bzero(key->data(), key->size());
  key.reset();
}

}  // namespace paceline
