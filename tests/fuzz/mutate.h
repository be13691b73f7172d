// Small random changes of bytes, for the fuzzers that run as tests.
#pragma once

#include <cstdint>
#include <string>

#include "common/random.h"

namespace paceline::testing {

// One to four small changes: a flipped bit, a byte of an awkward value, a cut, an insertion, a repetition.
inline void mutate(std::string& bytes, CounterRandom& random) {
  for (std::uint64_t changes = 1 + random.next_below(4); changes > 0; --changes) {
    const std::size_t at = random.next_below(bytes.size() + 1);
    constexpr char kAwkward[] = {'\0', '\1', '\x7f', '\x80', '\xff'};
    switch (random.next_below(5)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.next_below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = kAwkward[random.next_below(5)];
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, 1 + random.next_below(10), kAwkward[random.next_below(5)]);
        break;
      default:
        bytes.insert(at, bytes.substr(at, random.next_below(32)));
        break;
    }
  }
}

}  // namespace paceline::testing
