// Catch2 3 (Debian 13) by the header and the names of version 2 (Debian 12), which our tests are written for. On the
// include path only where version 3 is installed.
#pragma once

#include <catch2/catch_all.hpp>
#include <cstdint>
#include <string>

namespace Catch {

namespace clara = Clara;

inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }
using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;

inline std::uint32_t rngSeed() { return getSeed(); }

}  // namespace Catch

using Catch::Approx;
