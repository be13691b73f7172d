// The parts of a run's processes become one trace, on the authority's clock (align.h): trace.json.
#pragma once

#include <filesystem>
#include <vector>

#include "common/status.h"
#include "common/trace/trace.h"

namespace paceline::trace {

// One trace of parts. Where the authority's part is none of them, instants are moved onto the first part's
// clock: by nothing on its machine, by the wall clocks, with an error that is not known, on another.
Trace joined(std::vector<Trace> parts);

// Joins the parts that are in `run` and writes trace.json beside them. A part that is not there (its process
// was killed, or has another run directory) is missing in it. Returns what was written. Errors: kNotFound
// there is no part; those of read_trace_file() and write_trace().
Result<Trace> merge_parts(const std::filesystem::path& run);

// The trace of a run: its trace.json, or, where that is not there, what its parts come to. Errors: as above;
// of a damaged trace.json beside its parts, also how to make it again.
Result<Trace> read_run(const std::filesystem::path& run);

}  // namespace paceline::trace
