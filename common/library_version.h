// LibraryVersion: of a library that this program uses, what it was built with and what it runs with. They
// differ where a machine has other packages than the one that built it: `paceline doctor` prints both.
#pragma once

#include <string>

namespace paceline {

struct LibraryVersion {
  std::string name;
  std::string built;    // with this version's headers
  std::string running;  // what is loaded now
};

}  // namespace paceline
