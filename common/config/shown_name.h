// What a run is called where several may be seen: in its status, in Prometheus.
#pragma once

#include <filesystem>
#include <string>

#include "common/config/run_config.h"

namespace paceline {

// run.name where it was chosen, else the last part of the run directory.
inline std::string shown_name(const RunSection& run) {
  if (run.name != RunSection{}.name) return run.name;
  std::filesystem::path folder = std::filesystem::path(run.out).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/a/"
  const std::string last = folder.filename().string();
  return last.empty() || last == "." || last == ".." ? run.name : last;
}

}  // namespace paceline
