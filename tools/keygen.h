// `paceline keygen --out DIR [--nodes N]`: makes the keys of a run (common/wire/keys.h), which
// `security.keys` then names.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct KeygenOptions {
  std::string out = {};
  std::optional<std::uint32_t> nodes = {};  // a pair for each; nothing: one for all
};

// Writes the keys and says to `out` where which of them belong; or one line to `err` and 2, or 1 where they
// could not be written.
int keygen(const KeygenOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_keygen(CLI::App& app, int& exit_status);

}  // namespace paceline
