// The table of exchange.algorithm: auto, kept on each node's disk from one run to the next, so that a run that goes on,
// or another one on the same machines, adds in the same order and measures nothing.
//
//   all-reduce by ring binary_blocks direct tree; fp32; at 10.0.0.1 10.0.0.2 10.0.0.2
//   65536 ring 0.0021 binary_blocks 0.0019 direct 0.0014 tree 0.004
//
// The first line numbers the format, the second is what it was measured with: another one is none. All nodes use it, or
// none: they compare what they have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"
#include "worker/allreduce/measured_choice.h"

namespace paceline {

struct KeptChoices {
  std::vector<MeasuredChoice> choices;
  bool were_kept = false;         // by an earlier run
  Status written = Status::ok();  // of those that were not: why the next run measures again
};

// How buckets are summed, and why, a line each: "up to 65536 floats: ring 0.21 ms, direct 0.19 ms: direct". Without
// choices `configured` sums all.
std::vector<std::string> words_of(const KeptChoices& choices, schedule::Algorithm configured);

// Of a node: exchange.measured, or in the run's folder.
std::filesystem::path choices_file(const RunConfig& config, NodeId node);

// Kept or measured. hosts: of each rank; the file's are the same. `reductions`: of the mesh, counted on. Errors:
// Mesh::reduce()'s.
Result<KeptChoices> choices_from(const std::filesystem::path& file, const std::vector<std::string>& hosts,
                                 const MeasureRequest& request, mesh::Mesh& mesh, std::uint32_t& reductions);

}  // namespace paceline
