// Random messages that travel in another's header, on either side of it: as a rule of those that may.
#pragma once

#include <string>
#include <variant>

#include "common/wire/codec.h"
#include "tests/unit/wire_fields.h"

namespace paceline::wire {

inline Others random_others(Generator& generate) {
  Others others;
  for (std::uint64_t n = generate.random.next_below(7); n > 0; --n) {
    const Message message = generate.message(generate.random.next_below(kBodies));
    const bool fits = travels_with_others(message.body) && message.payload.empty() && !message.logged;
    if (!fits && generate.random.next_below(8) > 0) continue;
    const std::string header = encode(message).value();
    (generate.random.next_below(2) == 0 ? others.before : others.after).push_back(header);
  }
  return others;
}

}  // namespace paceline::wire
